"""Contents of model files that were tampered with: changed, told again in words that fit, and sealed again."""

import copy

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.events import event_from_list
from dperm.disk import fingerprint
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement
from dperm.schema import schema_from_dict
from dperm.verify.model import verify


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


def retold(content, **privacy):
    """The contents with other facts in the statement, and every word and certified number made to fit them."""
    content = copy.deepcopy(content)
    content["privacy"] |= privacy
    content["privacy"]["for_release"] = not content["privacy"]["caveats"]
    event, adjacency = event_from_list(content["events"]), Adjacency.parse(content["privacy"]["adjacency"])
    for name, value in (
        ("certified_epsilon", epsilon_of(event, content["privacy"]["delta"], adjacency)),
        ("certified_delta", delta_of(event, content["privacy"]["epsilon"], adjacency)),
    ):
        content["privacy"][name] = privacy.get(name, value)
    statement = FitStatement.from_dict(content["privacy"])
    schema = None if content["schema"] is None else schema_from_dict(content["schema"])
    content["statement"] = str(statement).splitlines()
    content["assumptions"] = assumptions(statement, schema, content["ledger"], searched="search" in content)
    return resealed(content)


def complaints(content, ledger=None):
    return [finding.text for finding in verify(content, ledger) if not finding.holds]
