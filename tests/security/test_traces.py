"""Rows L01, L03, L09, L11, L12, L15 where they need a process of its own: crashes, dumps, children, names on disk."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.bridge.token import new_token
from tests import wire
from tests.daemons import STOP_S, TOKEN_VARIABLE, Daemon, environment
from tests.lab import wait_until
from tests.security.starts import Site

NO_CORE_FILE = "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Site(tmp_path)) as made:
        (made.vault / "Plum.md").write_text("# Plum\n\nA plum tree wants sun.\n")
        yield made


def injected(token: str) -> dict[str, str]:
    """The variables that hand a token to the daemon."""
    name = "VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV"
    return {name: environment(token)[name], TOKEN_VARIABLE: token}


# a mistake of ours while a tool runs

FAILING = """
from sidecar.services.reading import Reading

async def fail(*args, **options):
    raise RuntimeError("cannot open /home/somebody/Secret.md for {token}")

Reading.{method} = fail
"""


def test_l09_a_mistake_in_a_tool_shows_in_the_log_only_and_there_without_the_token(site: Site) -> None:
    """L01 for tracebacks."""
    token = new_token()
    daemon = site.start(**injected(token), **site.run_first(FAILING.format(token=token, method="read")))
    daemon.token = token
    reply = wire.post(daemon.port, token, wire.tool("read_note", path="Plum.md"))
    assert reply.json()["result"]["isError"] is True
    for word in ("/home/somebody", "Secret", "Traceback", "RuntimeError", "reading.py", token, str(site.folder)):
        assert word.encode() not in reply.body
    assert wire.post(daemon.port, token, wire.tool("list_notes")).json()["result"]["isError"] is False
    assert daemon.stop() == 0
    log = daemon.stderr()
    assert "    | RuntimeError: cannot open /home/somebody/Secret.md for ***\n" in log
    assert token not in log


# a mistake of ours that ends the process

DYING = """
import sidecar.daemon

async def fail(options, *args):
    raise RuntimeError(f"{options} {options!r} {options.injected_token}")

sidecar.daemon.run_daemon = fail
"""
SHOWING = "from sidecar.config import Secret\nSecret.__repr__ = Secret.__str__ = lambda self: self.value\n"


def test_l11_settings_in_a_traceback_show_the_token_as_stars(site: Site) -> None:
    token = new_token()
    ended = site.refused(**injected(token), **site.run_first(DYING))
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert ended.err.count("injected_token=***") == 2
    assert token not in ended.err + ended.out


def test_without_the_stars_the_token_would_show(site: Site) -> None:
    """Control of L11."""
    token = new_token()
    assert token in site.refused(**injected(token), **site.run_first(SHOWING + DYING)).err


# a dump of a running process


def aborted(site: Site, daemon: Daemon) -> str:
    """What a daemon that has just served somebody leaves on stderr when it is aborted."""
    assert wire.post(daemon.port, daemon.token, wire.tool("search_notes", query="sun")).status == 200
    daemon.process.send_signal(signal.SIGABRT)
    assert daemon.process.wait(STOP_S) == -signal.SIGABRT
    dump = daemon.stderr()
    assert "Fatal Python error: Aborted" in dump
    assert re.search(r'File ".*sidecar/daemon\.py|asyncio/', dump)
    return dump


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
@pytest.mark.parametrize("by_variable", [pytest.param(False, id="L15"), pytest.param(True, id="L15-injected")])
def test_a_dump_of_all_threads_holds_no_key(site: Site, by_variable: bool) -> None:
    token = new_token()
    env = injected(token) if by_variable else {}
    daemon = site.start(PYTHONFAULTHANDLER="1", **env, **site.run_first(NO_CORE_FILE))
    daemon.token = daemon.token or token
    key = (site.state / "local.key").read_text().strip()
    dump = aborted(site, daemon)
    assert daemon.token not in dump
    assert key not in dump


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_a_key_that_stood_in_a_dump_would_be_found(site: Site) -> None:
    """Control of L15: a dump shows the names of files and functions."""
    token = new_token()
    waiting = f"""
import threading, time
names = {{"time": time}}
exec(compile("def wait():\\n time.sleep(1000)", {token!r}, "exec"), names)
threading.Thread(target=names["wait"], daemon=True).start()
"""
    daemon = site.start(PYTHONFAULTHANDLER="1", **injected(token), **site.run_first(NO_CORE_FILE + waiting))
    daemon.token = token
    assert token in aborted(site, daemon)


# children

CONFESS = """
import json, os, sys
line = json.dumps([sys.orig_argv, dict(os.environ)]) + chr(10)
os.write(os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), line.encode())  # at one moment: many begin at once
"""


def test_l03_no_child_inherits_the_token(site: Site) -> None:
    """L02 for the arguments of the processes that prepare many notes."""
    for number in range(400):
        (site.vault / f"{number}.md").write_text(f"# Note {number}\n\nPlain words.\n")
    token, confessions = new_token(), site.folder / "confessions"
    daemon = site.start(**injected(token), **site.run_first(CONFESS.format(path=str(confessions))))
    wait_until(lambda: confessions.read_text().count("\n") > 1)
    daemon.token = token
    wait_until(lambda: b"399.md" in wire.post(daemon.port, token, wire.tool("search_notes", query="Note 399")).body)
    assert daemon.stop() == 0
    own, *children = [json.loads(line) for line in confessions.read_text().splitlines()]
    assert own[1][TOKEN_VARIABLE] == token, "control: the daemon itself was given it"
    assert any("multiprocessing" in word for argv, _ in children for word in argv)
    for argv, variables in children:
        assert TOKEN_VARIABLE not in variables
        assert token not in " ".join([*argv, *variables.values()])


# names on disk

FORGED = "2026-01-01 00:00:00 INFO    sidecar: all is well"


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_l12_a_file_name_can_not_forge_a_line_of_the_log(site: Site) -> None:
    names = [f"{begin}{FORGED}.md" for begin in ("a\n", "b\r", "c\x1b[2J", "d\u2028", "e\x85")]
    for name in names:
        (site.vault / name).symlink_to("Plum.md")  # skipped, and that is logged
    daemon = site.start(VAULT_SIDECAR_LOG_LEVEL="debug")
    wait_until(lambda: daemon.stderr().count("skipped ") == len(names))
    assert daemon.stop() == 0
    log = daemon.stderr()
    assert not [line for line in log.splitlines() if line.startswith(FORGED)]
    assert log.replace("\n", "").isprintable()
    for escaped in ("a\\n", "b\\r", "c\\u001b[2J", "d\\u2028", "e\\u0085"):
        assert f"skipped {escaped}{FORGED}.md: " in log
