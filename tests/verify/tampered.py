"""Contents of files that were tampered with: changed, with certified numbers that fit, and sealed again."""

import copy

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.disk import fingerprint
from dperm.files.plan_data import plan_from
from dperm.files.reading import promise_of
from dperm.privacy.guarantee import Adjacency
from dperm.verify.release import verify


def changed(content, *path, to):
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return content


def resealed(content):
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    return rest | {"fingerprint": fingerprint(rest)}


def parts(plan):
    """The fits and sums of a plan."""
    if "queries" in plan:
        return [plan]
    return [part for value in plan.values() if isinstance(value, list) for one in value for part in parts(one)]


def retold(content, **privacy):
    """The contents with other facts in the statement, and certified numbers that fit what the plan gives."""
    content = copy.deepcopy(content)
    content["privacy"] |= privacy
    content["privacy"]["for_release"] = not content["privacy"]["caveats"]
    for part in parts(content["plan"]):
        part |= {name: content["privacy"][name] for name in ("adjacency", "unit")}
    event = plan_from(content["plan"], *promise_of(content)).event
    adjacency = Adjacency.parse(content["privacy"]["adjacency"])
    for name, value in (
        ("certified_epsilon", epsilon_of(event, content["privacy"]["delta"], adjacency)),
        ("certified_delta", delta_of(event, content["privacy"]["epsilon"], adjacency)),
    ):
        content["privacy"][name] = privacy.get(name, value)
    return resealed(content)


def complaints(content, ledger=None):
    return [finding.text for finding in verify(content, ledger) if not finding.holds]
