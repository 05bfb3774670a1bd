"""`dperm plot`: every picture of a model file, in every format, and what it refuses."""

import sys

import pytest

from cli.hostile import fit_arguments, refused, run, write_table

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path)
    assert run(*fit_arguments(tmp_path, tmp_path / "model.json"))[0] == 0
    return tmp_path


def test_every_picture_is_written(folder):
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}
    model = folder / "by-default.json"  # what noise costs the published methods is not known beforehand
    assert run(*fit_arguments(folder, model, "--solver", "dp-objective"))[0] == 0
    assert "not known in advance" in refused("plot", folder / "model.json", "--what", "risk", "-o", folder / "risk.png")
    for what, kind in (("coefficients", "png"), ("effects", "svg"), ("attack", "pdf"), ("risk", "png")):
        path = folder / f"{what}.{kind}"
        assert run("plot", model, "--what", what, "-o", path) == (0, f"wrote {path}\n", "")
        assert path.read_bytes().startswith(starts[kind])


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_file_gives_the_same_picture(folder, kind):
    paths = [folder / f"{name}.{kind}" for name in ("one", "two")]
    for path in paths:
        assert run("plot", folder / "model.json", "--what", "attack", "-o", path)[0] == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_picture_is_replaced_only_when_forced_and_never_what_is_read(folder):
    draw = ("plot", folder / "model.json", "--what", "attack", "-o")
    (folder / "there.png").write_text("mine")
    assert "--force" in refused(*draw, folder / "there.png")
    assert (folder / "there.png").read_text() == "mine"
    assert run(*draw, folder / "there.png", "--force")[0] == 0
    (folder / "model.png").hardlink_to(folder / "model.json")
    assert "it is an input of this command" in refused(*draw, folder / "model.png", "--force")


def test_what_cannot_be_drawn_is_one_sentence(folder):
    model, out = folder / "model.json", folder / "x.png"
    assert "must end in .png, .svg, .pdf" in refused("plot", model, "--what", "risk", "-o", folder / "x.gif")
    assert "--column requires --what effects" in refused("plot", model, "--what", "risk", "--column", "a", "-o", out)
    assert "no column 'a'" in refused("plot", model, "--what", "effects", "--column", "a", "-o", out)
    assert "--what" in refused("plot", model, "-o", out)
    assert "is not a dperm model file" in refused("plot", folder / "schema.toml", "--what", "risk", "-o", out)
    assert not out.exists()


def test_without_matplotlib_the_command_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    words = refused("plot", folder / "model.json", "--what", "attack", "-o", folder / "x.png")
    assert "the picture needs matplotlib: pip install 'dperm[plot]'" in words
