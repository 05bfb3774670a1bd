"""Files that are written whole or not at all."""

import os
import stat

import pytest

from dperm import InvalidParameterError
from dperm.disk import write_whole


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path, umask):
    write_whole(tmp_path / "m.json", "x")
    assert mode_of(tmp_path / "m.json") == 0o666 & ~umask
    assert os.umask(umask) == umask  # and the umask is what it was


def test_a_file_that_was_there_keeps_its_mode(tmp_path):
    path = tmp_path / "m.json"
    path.write_text("old")
    path.chmod(0o600)
    write_whole(path, "new")
    assert (path.read_text(), mode_of(path)) == ("new", 0o600)


def test_contents_reach_the_disk_before_the_name_does(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync"))
    replace = type(tmp_path).replace
    monkeypatch.setattr(type(tmp_path), "replace", lambda self, to: (done.append("rename"), replace(self, to))[1])
    write_whole(tmp_path / "m.json", b"x")
    assert done == ["sync", "rename", "sync"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("old")

    def fail(_handle):
        raise OSError(5, "no")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InvalidParameterError, match="cannot be written"):
        write_whole(tmp_path / "absent" / "m.json", "x")
