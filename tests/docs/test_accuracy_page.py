"""docs/accuracy.md and its picture show what benchmarks/accuracy/results.json holds, and count it rightly."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = ROOT / "benchmarks" / "accuracy"
MODULES = ("about", "methods", "page", "results")


@pytest.fixture
def accuracy(monkeypatch):
    """The benchmark's modules, which are scripts beside each other and no package."""
    monkeypatch.syspath_prepend(HERE)
    import page
    import results

    yield page, results
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_page_is_what_the_measurements_say(accuracy):
    page, results = accuracy
    assert page.PAGE.read_text(encoding="utf-8") == page.render(results.Results())


def test_the_picture_was_drawn_from_these_measurements_and_is_small(accuracy):
    page, results = accuracy
    picture = page.PICTURE.read_bytes()
    assert page.fingerprint(results.Results()).encode() in picture
    assert len(picture) < 300_000


def test_the_measurements_are_written_as_they_are_read(accuracy):
    _, results = accuracy
    assert results.Results().text() == results.PATH.read_text(encoding="utf-8")


def test_what_was_not_run_has_a_reason_and_no_number(accuracy):
    page, results = accuracy
    found = results.Results()
    text = page.render(found)
    for data, (title, *_) in page.ABOUT.items():
        section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
        for method, name in page.NAMES.items():
            measured = any(key.data == data and key.method == method for key in found.cells)
            reason = page.not_run(method, data) or f"{name}: not measured yet."
            assert (f"| {name} |" in section) == measured
            assert (reason in section) != measured


def test_every_private_cell_has_all_its_seeds(accuracy):
    page, results = accuracy
    found = results.Results()
    for key in found.cells:
        if key.epsilon is not None:
            assert not found.missing(key, page.SEEDS), key


def test_wins_equal_medians_and_losses_are_counted_under_the_peers_own_adjacency(accuracy, tmp_path):
    page, results = accuracy
    found = results.Results(tmp_path / "results.json")
    Key = results.Key
    for epsilon, ours in ((0.5, 0.7), (1.0, 0.8), (2.0, 0.8005), (8.0, 0.9)):
        found.add(Key("adult", "dperm", "add_remove", epsilon), {0: ours - 0.3, 1: ours, 2: ours + 0.01})
        found.add(Key("adult", "dperm", "replace_one", epsilon), {0: 0.0})
        found.add(Key("adult", "DP-EBM", "add_remove", epsilon), {0: 0.8, 1: 0.8, 2: 0.1})
    text = page.render(found)
    assert "| DP-EBM (interpret) | add_remove | 4 | 1 | 2 | 1 |" in text
    assert "| DP-EBM | Adult | 0.5 | .700 | .800 | .100 |" in text
    assert "| diffprivlib, δ = 0 | replace_one | 0 | 0 | 0 | 0 |" in text


def test_scores_are_kept_by_seed_and_measured_again_only_when_asked(accuracy, tmp_path):
    _, results = accuracy
    path = tmp_path / "results.json"
    key = results.Key("adult", "dperm", "replace_one", 1.0)
    results.Results(path).add(key, {0: 0.9, 2: 0.91})
    other = results.Results(path)
    other.add(results.Key("adult", "DP-EBM", "add_remove", 1.0), {0: 0.8})
    assert results.Results(path).missing(key, range(4)) == [1, 3]
    other.forget("dperm", "adult")
    assert results.Results(path).missing(key, range(2)) == [0, 1]
    assert [kept.method for kept in results.Results(path).cells] == ["DP-EBM"]
