"""docs/accuracy.md and its picture, from results.json alone: nothing on them is typed.

python benchmarks/accuracy/page.py
"""

import hashlib
import itertools

from about import ABOUT
from methods import ADJACENCIES, CEILINGS, DELTA, EPSILONS, METHODS, PEERS, SEEDS, not_run
from results import ROOT, Key, Results

PAGE, PICTURE = ROOT / "docs" / "accuracy.md", ROOT / "docs" / "accuracy.png"
# Medians that differ by no more are called equal.
TIE = 0.001

NAMES = {
    "dperm": "dperm, defaults",
    "DP-EBM": "DP-EBM (interpret)",
    "diffprivlib": "diffprivlib, δ = 0",
    "DP-SGD": "DP-SGD, tuned by an oracle",
    "linear": "linear model, no privacy",
    "linear, binned": "linear model on bins, no privacy",
    "boosting": "gradient boosting, no privacy",
}

HEAD = """\
# Accuracy on data that was held out

dperm at its defaults from the raw table, beside what people would use instead and what is possible without privacy.
This page and its picture are made by `make bench-accuracy` from
[the measurements](../benchmarks/accuracy/results.json) ([how](../benchmarks/accuracy/README.md)). Versions:
{versions}.

![The measure against ε, for every table](accuracy.png)

Lines are medians, shaded from the least to the largest seed; what is below 0 lies outside.

## What is compared

- **dperm** gets ε, δ, an adjacency and a [schema](tables.md) of public ranges and categories, or arrays where no column
  has a name. No penalty, no bins, no solver is named. Both adjacencies are measured.
- **DP-EBM** is the private boosting of [interpret](https://interpret.ml/) at its defaults, told the same ranges and
  types. Its noise covers what one row adds to a sum: add_remove.
- **diffprivlib** promises δ = 0 under replace_one. It gets scaled numbers and one-hot categories in rows of norm at
  most 1, and the best of four C on the test rows, for which it is not charged. Predictions of its linear regression are
  clipped to the target's range.
- **DP-SGD** is a plain loop on a linear model: Poisson samples, clipped gradients, Gaussian noise calibrated by privacy
  loss distributions, add_remove. An oracle picks on the test rows, at seeds of its own, what a user would have to
  guess: step size, clip, batches, epochs, last or averaged iterate, and linear columns or bins at the quantiles of the
  training rows. It is charged for none of that: the line shows how far such a model can get, not what a user
  would get.
- **No privacy**: scikit-learn's linear models (the better of two ridges on the test rows) on scaled numbers and on bins
  at quantiles, and its histogram gradient boosting, a hundred rounds with no early stop, else at its defaults.

Numbers are medians of {seeds} seeds (least … largest) at δ = {delta}, on a fixed split; only the noise differs
between seeds. The two adjacencies are two promises, of which replace_one is the stronger at the same ε: a peer is
compared with dperm under the peer's own. RCV1 is measured by accuracy, as its classes are about equally frequent; the
other tables with two classes by the area under the ROC curve (AUC).
"""


def render(results: Results) -> str:
    """The whole page."""
    shapes = results.shapes
    parts = [
        HEAD.format(
            versions="; ".join(sorted({cell["version"] for cell in results.cells.values()})),
            seeds=len(SEEDS),
            delta=f"{DELTA:g}".replace("e-0", "e-"),
        ),
        _wins(results),
    ]
    for data, (title, question, measure) in ABOUT.items():
        if data in shapes:
            n_train, n_test, n_columns = shapes[data]
            rows = f"{_spaced(n_train)} rows to train, {_spaced(n_test)} to test, {_spaced(n_columns)} columns"
            asked = f"{measure[0].upper()}{measure[1:]}: {question}. {rows}."
            parts.append(f"## {title}\n\n{asked}\n\n{_table(results, data)}")
    parts.append(_settings(results))
    return "\n".join(parts)


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ") if count >= 10_000 else str(count)


def _number(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def _table(results: Results, data: str) -> str:
    lines = [f"| | adjacency | {' | '.join(f'ε = {epsilon:g}' for epsilon in EPSILONS)} |", "|---" * 6 + "|"]
    for method, adjacencies in ADJACENCIES.items():
        for adjacency in adjacencies:
            found = [results.spread(Key(data, method, adjacency, epsilon)) for epsilon in EPSILONS]
            if any(found):
                cells = [f"{_number(s[1])} ({_number(s[0])} … {_number(s[2])})" if s else "–" for s in found]
                lines.append(f"| {NAMES[method]} | {adjacency} | {' | '.join(cells)} |")
    for method in CEILINGS:
        if spread := results.spread(Key(data, method)):
            lines.append(f"| {NAMES[method]} | | {' | '.join([_number(spread[1])] * len(EPSILONS))} |")
    measured = {key.method for key in results.cells if key.data == data}
    reasons = [
        not_run(method, data) or f"{NAMES[method]}: not measured yet." for method in METHODS if method not in measured
    ]
    return "\n".join([*lines, "", " ".join(reasons), ""] if reasons else [*lines, ""])


def _wins(results: Results) -> str:
    """Wins and losses of dperm's medians, and every loss by name."""
    lines = [
        "## Wins and losses\n",
        f"Of all tables and ε, by medians and under the peer's own adjacency; equal means within {_number(TIE)}.\n",
        "| dperm against | adjacency | compared | higher | equal | lower |",
        "|---" * 6 + "|",
    ]
    losses = []
    for peer in PEERS:
        (adjacency,) = ADJACENCIES[peer]
        counts = {"higher": 0, "equal": 0, "lower": 0}
        for data, epsilon in itertools.product(ABOUT, EPSILONS):
            ours = results.spread(Key(data, "dperm", adjacency, epsilon))
            theirs = results.spread(Key(data, peer, adjacency, epsilon))
            if ours and theirs:
                ahead = ours[1] - theirs[1]
                verdict = "equal" if abs(ahead) <= TIE else "higher" if ahead > 0 else "lower"
                counts[verdict] += 1
                if verdict == "lower":
                    losses.append((peer, data, epsilon, ours[1], theirs[1]))
        cells = " | ".join(str(count) for count in counts.values())
        lines.append(f"| {NAMES[peer]} | {adjacency} | {sum(counts.values())} | {cells} |")
    lines.append("")
    if losses:
        lines += [
            "Where dperm is behind, and by how much:\n",
            "| peer | table | ε | dperm | peer | behind by |",
            "|---" * 6 + "|",
        ]
        lines += [
            f"| {peer} | {ABOUT[data][0]} | {epsilon:g} | {' | '.join(map(_number, (mine, other, other - mine)))} |"
            for peer, data, epsilon, mine, other in losses
        ]
        lines.append("")
    return "\n".join(lines)


def _settings(results: Results) -> str:
    """What the oracle and the search for C picked."""
    lines = ["## What was picked on the test rows\n", "| | table | ε | setting |", "|---" * 4 + "|"]
    for method, data, epsilon in itertools.product(("DP-SGD", "diffprivlib"), ABOUT, EPSILONS):
        cell = results.cells.get(Key(data, method, ADJACENCIES[method][0], epsilon))
        if cell and cell["setting"]:
            lines.append(f"| {method} | {ABOUT[data][0]} | {epsilon:g} | {cell['setting']} |")
    return "\n".join([*lines, ""])


def fingerprint(results: Results) -> str:
    """Of the measurements; the picture carries that of those it was drawn from."""
    return hashlib.sha256(results.text().encode()).hexdigest()


def write(results: Results) -> None:
    """Write the page and draw the picture."""
    from picture import draw  # whoever reads the page's text does not need matplotlib

    PAGE.write_text(render(results), encoding="utf-8")
    draw(results, PICTURE, fingerprint(results))


if __name__ == "__main__":
    write(Results())
