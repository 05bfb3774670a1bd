"""What tests of several folders share: folders of their own, and a PostgreSQL server where there is one."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="the first case of each test, and no test that is marked long")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark most cases of a long test as slow: its own marks say which of them are part of `make test`."""
    seen, families = Counter(), {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        one_in, every_value = (item.get_closest_marker(name) for name in ("one_case_in", "cases_with_every_value"))
        if item.get_closest_marker("slow") is not None:
            continue
        if one_in is not None:
            of_each = one_in.kwargs.get("of_each")
            case = (test, type(item.callspec.params[of_each]) if of_each else None)
            if seen[case] % one_in.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[case] += 1
        elif every_value is not None:
            families.setdefault(test, []).append(item)
    for family in families.values():
        kept = _with_every_value(family)
        for item in family:
            if item not in kept:
                item.add_marker(pytest.mark.slow)
    if config.getoption("--fast"):
        first = {}
        for item in items:
            if item.get_closest_marker("slow") is None and item.get_closest_marker("long") is None:
                first.setdefault(item.nodeid.partition("[")[0], item)
        chosen = set(first.values())
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


def _with_every_value(family):
    """Few cases in which every value of every parameter occurs, all of them about as often."""
    values = {item: [(name, repr(value)) for name, value in item.callspec.params.items()] for item in family}
    times, kept = Counter(), set()
    while True:
        best = max(
            family, key=lambda item: (sum(not times[v] for v in values[item]), -sum(times[v] for v in values[item]))
        )
        if all(times[value] for value in values[best]):
            return kept
        kept.add(best)
        times.update(values[best])


@pytest.fixture(scope="session", autouse=True)
def each_bound_once():
    """`verify` of the same events takes its ball arithmetic from the first time: many tests do it over and over."""
    from dperm.rigorous import bound

    kept, rigorous_bound = {}, bound.rigorous_bound

    def remembered(*question):
        name = repr(question)
        if name not in kept:
            kept[name] = rigorous_bound(*question)
        return kept[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "rigorous_bound", remembered)  # where `verify` looks for it; others have imported it
        yield


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Ledgers and witnesses go to a folder of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DPERM_LEDGER", raising=False)


@pytest.fixture(scope="session")
def postgresql_server():
    """The URL, up to the name of a database, of a server that lives as long as the tests; skips where there is none."""
    pytest.importorskip("psycopg")
    control = _postgresql_program("pg_ctl")
    # The server refuses to run as root, and its user must be able to reach the folder.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="dperm-postgresql-", dir="/tmp"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    password = folder / "password"
    password.write_text("secret-of-tests")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c max_connections=60"
    options += " -c fsync=off"  # the processes that tests kill lose nothing by it, only a machine would
    authenticated = ["-A", "scram-sha-256", "-U", "tester", f"--pwfile={password}"]
    try:
        if as_user:
            shutil.chown(folder, "postgres")
            shutil.chown(password, "postgres")
        _run([*as_user, _postgresql_program("initdb"), "-D", folder / "data", "-N", *authenticated])
        _run([*as_user, control, "-D", folder / "data", "-l", folder / "log", "-w", "-o", options, "start"])
    except (OSError, LookupError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL is there but does not start: {error}")
    yield f"postgresql+psycopg://tester:secret-of-tests@127.0.0.1:{port}"
    _run([*as_user, control, "-D", folder / "data", "-m", "immediate", "-w", "stop"])
    shutil.rmtree(folder, ignore_errors=True)


def _run(command):
    # Not captured: a server that goes on running would keep the pipe open.
    subprocess.run(command, check=True, timeout=120, cwd="/tmp", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _postgresql_program(name):
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    program = found[-1] if found else shutil.which(name)
    if program is None:
        pytest.skip(f"PostgreSQL's {name} is not installed")
    return program
