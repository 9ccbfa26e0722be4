"""When the plugin goes, everything goes; and who makes way for whom, with windows of the editor among them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.bridge import endpoint, lock
from sidecar.bridge.settings import read_settings
from tests import wire
from tests.conftest import REPOSITORY
from tests.daemons import environment, start_daemon
from tests.editor.conftest import Study
from tests.editor.plugin import COMMAND, PATIENCE_S, Plugin, Refused
from tests.lab import wait_until
from tests.living import alive, children
from tests.ports import free_port
from tests.security import scribes
from tests.security.starts import run_first

MEANING = {"VAULT_SIDECAR_INDEX_RAG": "true", "VAULT_SIDECAR_INDEX_EMBEDDER": "hash"}
"""A vector worker, and no model to load."""

HANGING = {"PYTHON_KEYRING_BACKEND": "tests.bridge.keyrings.Hanging"}

linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes by way of /proc")


def left_cleanly(study: Study) -> bool:
    """Neither address nor holder is on record any more."""
    return endpoint.read(study.state) is None and lock.holder(study.state) is None


def is_free(study: Study) -> bool:
    """Whether nobody holds the vault's lock."""
    with lock.hold(study.state, "command", "test"):
        return True


def family(pid: int) -> list[int]:
    """A process and all it has started, and those in turn."""
    return [pid, *(member for child in children(pid) for member in family(child))]


# the pipe ends


def before_hello(window: Plugin) -> None:
    pass


def after_hello(window: Plugin) -> None:
    window.hello()


def as_it_starts(window: Plugin) -> None:
    window.hello()
    window.begin("start", settings={"port": 0})


def as_it_asks_the_keyring(window: Plugin) -> None:
    as_it_starts(window)
    window.hear("log", lambda log: "did not answer" in log["line"])


def as_it_listens(window: Plugin) -> None:
    window.start()


def in_the_middle_of_reading(window: Plugin) -> None:
    window.start()
    window.hear("state", lambda state: state["phase"] == "indexing" and 0 < state["done"] < state["total"])


def in_the_middle_of_vectors(window: Plugin) -> None:
    window.start()
    window.hear("state", lambda state: state["phase"] == "running" and not state["settled"] and state["notes"] > 0)


def when_all_is_done(window: Plugin) -> None:
    window.start()
    window.settled()


PHASES: list[Callable[[Plugin], None]] = [
    before_hello,
    after_hello,
    as_it_starts,
    as_it_asks_the_keyring,
    as_it_listens,
    in_the_middle_of_reading,
    in_the_middle_of_vectors,
    when_all_is_done,
]


SLOW = """
import time
from sidecar.index.{module} import {owner} as owner

real = owner.{name}

def slow(*args):
    time.sleep(0.4)
    return real(*args)

owner.{name} = slow
"""


def make_ready(study: Study, phase: Callable[[Plugin], None]) -> dict[str, str]:
    """What the phase needs; the environment. What is to be met in the middle takes its time."""
    if phase in (in_the_middle_of_reading, in_the_middle_of_vectors):
        for number in range(2000):
            study.write(f"Note {number}.md", f"# Note {number}\n\n" + f"It is about thing{number} and more.\n" * 20)
    if phase is in_the_middle_of_reading:
        slow = SLOW.format(module="holdings", owner="Holdings", name="store_if_still_so")
        return run_first(study.vault.parent, slow)
    if phase is in_the_middle_of_vectors:
        return MEANING | run_first(
            study.vault.parent, SLOW.format(module="manifest", owner="Manifest", name="mark_ready")
        )
    if phase is as_it_asks_the_keyring:
        return HANGING
    return {} if phase is as_it_listens else MEANING


@linux
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_closing_stdin_ends_everything_in_every_phase(study: Study, phase: Callable[[Plugin], None]) -> None:
    window = study.window(env=make_ready(study, phase))
    phase(window)
    processes = family(window.process.pid)
    assert window.close() == 0, window.stderr()
    wait_until(lambda: not any(map(alive, processes)), within_s=PATIENCE_S)
    if study.state.exists():
        assert is_free(study)
        assert endpoint.read(study.state) is None
    assert "Traceback" not in window.stderr()


PARENT = """
import json, subprocess, sys, time
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def ask(method, **params):
    request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    child.stdin.write(json.dumps(request).encode() + b"\\n")
    child.stdin.flush()
ask("hello", protocol=1, plugin="1", vault=sys.argv[1])
ask("start", settings={"port": 0})
for line in child.stdout:
    message = json.loads(line)
    if message.get("method") == "state" and message["params"]["settled"]:
        print(child.pid, flush=True)
"""


@linux
def test_d14_when_the_plugin_is_killed_no_process_and_no_address_is_left(study: Study) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(study.vault), *COMMAND, "--state", str(study.root)],
        stdout=subprocess.PIPE,
        env=environment(**MEANING),
        cwd=REPOSITORY,
    ) as parent:
        assert parent.stdout is not None
        processes = family(int(parent.stdout.readline()))
        assert len(processes) >= 2, "the vector worker is among them"
        parent.kill()
    wait_until(lambda: not any(map(alive, processes)), within_s=PATIENCE_S)
    assert left_cleanly(study)


@linux
@pytest.mark.parametrize(
    "phase",
    [pytest.param(in_the_middle_of_reading, id="D14-reading"), pytest.param(when_all_is_done, id="D14-at-rest")],
)
def test_when_the_daemon_itself_is_killed_no_process_is_left_and_the_next_start_works(
    study: Study, phase: Callable[[Plugin], None]
) -> None:
    window = study.window(env=MEANING | make_ready(study, phase))
    phase(window)
    processes = family(window.process.pid)
    assert len(processes) >= 2
    window.process.kill()
    wait_until(lambda: not any(map(alive, processes)), within_s=PATIENCE_S)
    again = study.window()
    again.start()
    assert again.settled()["indexed"] == len(list(study.vault.glob("*.md")))


@pytest.mark.parametrize("how", [pytest.param("pipe", id="D13-pipe"), pytest.param("SIGTERM", id="D13-SIGTERM")])
def test_an_end_in_the_middle_of_writing_tears_nothing(study: Study, how: str) -> None:
    window = study.window()
    port = window.start(allowWrites=True)["port"]
    paths = [f"Log {number}.md" for number in range(4)]
    with scribes.appending(port, window.ask("token/get")["token"], 0, paths, may_vanish=True) as load:
        wait_until(lambda: len(load.acknowledged) > 40, within_s=PATIENCE_S)
        if how == "pipe":
            assert window.close() == 0
        else:
            window.process.terminate()
            assert window.ended() == 0
            assert window.hear("ending")["problem"]["code"] == "stopped"
    assert not load.failures
    assert scribes.torn_notes(study.vault, paths) == []
    assert scribes.lost(study.vault, load.acknowledged) == []
    assert scribes.temporary_files(study.vault) == []
    assert left_cleanly(study)


def test_an_end_that_hangs_comes_anyway(study: Study) -> None:
    # the vault's disk does not answer any more: whatever closes the daemon waits for it
    code = (
        "import threading\n"
        "from sidecar.cli import bridge\n"
        "from sidecar.cli.main import main\n"
        "from sidecar.index.corpus import Corpus\n"
        "import asyncio\n"
        "bridge._END_S = 0.3\n"
        "async def never(self): await asyncio.shield(asyncio.get_running_loop().create_future())\n"
        "run = Corpus.run\n"
        "async def hang(self):\n"
        "    try: await run(self)\n"
        "    finally: threading.Event().wait()\n"
        "Corpus.run = hang\n"
        f"main(['bridge', '--state', {str(study.root)!r}])\n"
    )
    window = study.window(command=[sys.executable, "-c", code])
    window.start()
    assert window.close() == 1
    assert is_free(study)


def test_quick_flips_leave_the_last_wish(study: Study) -> None:
    for _ in range(4):
        window = study.window()
        window.hello()
        window.begin("start", settings={"port": 0})
        assert window.close() == 0
    window = study.window()
    window.start()
    assert window.ask("status")["phase"] in ("indexing", "running")
    assert (
        wire.post(window.ask("status")["port"], window.ask("token/get")["token"], wire.call("tools/list")).status == 200
    )


def test_flips_that_do_not_wait_for_each_other_leave_the_last_one(study: Study) -> None:
    windows = [study.window() for _ in range(4)]
    for window in windows:
        window.hello()
    for window in windows[:-1]:
        window.begin("start", settings={"port": 0})
        window.process.stdin.close()  # type: ignore[union-attr]
    port = windows[-1].ask("start", settings={"port": 0})["port"]
    assert [window.ended() for window in windows[:-1]] == [0, 0, 0]
    found = endpoint.read(study.state)
    assert found is not None and (found.port, found.pid) == (port, windows[-1].process.pid)


ASKED = """
from sidecar.bridge import handover

ask = handover._ask

def asked(*args):
    open({path!r}, "w").close()
    return ask(*args)

handover._ask = asked
"""


def test_one_that_is_closed_while_it_waits_for_the_vault_waits_no_longer(study: Study, tmp_path: Path) -> None:
    """And asks nobody any more to leave."""
    asked = tmp_path / "asked"
    study.state.mkdir(mode=0o700, parents=True)
    with lock.hold(study.state, "bridge", "one that does not listen yet"):
        window = study.window(env=run_first(tmp_path, ASKED.format(path=str(asked))))
        window.hello()
        window.begin("start", settings={"port": 0})
        wait_until(asked.exists, within_s=PATIENCE_S)
        assert window.close() == 0


# others


def test_a_second_window_takes_the_vault_over_and_the_first_is_told(study: Study) -> None:
    first, second = study.window(), study.window()
    first.start()
    token = first.ask("token/get")["token"]
    second.start()
    assert first.hear("ending")["problem"]["code"] == "taken-over"
    assert first.ended() == 0
    assert second.ask("token/get")["token"] == token
    assert not [name for name, _ in second.events if name == "notice"]


def test_a_daemon_in_the_background_makes_way_and_the_plugin_is_told(study: Study) -> None:
    places = ["--vault", str(study.vault), "--state", str(study.root)]
    daemon = subprocess.Popen(
        [sys.executable, "-m", "sidecar", "serve", "--auto", "600", "--port", "0", *places],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd=REPOSITORY,
    )
    with daemon:
        assert daemon.stdout is not None and daemon.stdout.readline()
        window = study.window()
        window.start()
        assert daemon.wait(PATIENCE_S) == 0
    assert window.hear("notice")["code"] == "handed-over"
    holder = lock.holder(study.state)
    assert holder is not None and (holder.owner, holder.pid) == ("bridge", window.process.pid)


def test_beside_a_daemon_of_a_terminal_it_is_refused_with_who_has_the_vault(study: Study) -> None:
    daemon = start_daemon(study.vault, study.root)
    try:
        window = study.window()
        with pytest.raises(Refused) as refused:
            window.start()
        assert refused.value.data == {
            "code": "already-running",
            "reason": f"Another daemon (pid {daemon.pid}, started as 'serve') serves this vault already,"
            f" at http://127.0.0.1:{daemon.port}/mcp.",
            "fix": "Stop it, or go on using it.",
        }
        assert window.ended() == 3
        assert wire.post(daemon.port, daemon.token, wire.call("tools/list")).status == 200
    finally:
        assert daemon.stop() == 0


def test_a_command_that_stops_it_is_told_from_a_crash(study: Study) -> None:
    window = study.window()
    window.start()
    stop = [sys.executable, "-m", "sidecar", "stop", "--vault", str(study.vault), "--state", str(study.root)]
    assert (
        subprocess.run(stop, env=environment(), cwd=REPOSITORY, capture_output=True, timeout=PATIENCE_S).returncode == 0
    )
    assert window.hear("ending")["problem"]["code"] == "stopped"
    assert window.ended() == 0


# starts that are refused


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on; the next one is free."""
    with socket.create_server(("127.0.0.1", free_port())) as server:  # nor does the next one go to a connection
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_refused_with_one_that_is_free_and_nothing_is_kept(study: Study, taken: int) -> None:
    window = study.window()
    with pytest.raises(Refused) as refused:
        window.start(port=taken, allowWrites=True)
    data = refused.value.data
    assert (data["code"], data["reason"]) == ("port", f"Port {taken} is used by another program.")
    assert taken < data["suggestPort"]
    assert window.ended() == 1
    assert read_settings(study.state) == {}
    again = study.window()
    assert again.start(port=data["suggestPort"])["port"] == data["suggestPort"]
    assert read_settings(study.state) == {"http": {"port": data["suggestPort"]}}


def test_a_port_that_another_vault_has_is_refused_by_its_name(study: Study, tmp_path: Path) -> None:
    other = tmp_path / "Work"
    other.mkdir()
    first = study.window(vault=other)
    port = first.start()["port"]
    with pytest.raises(Refused, match=f'Port {port} is used by the vault "Work".'):
        study.window().start(port=port)


def test_a_new_vault_gets_a_port_that_it_keeps(study: Study) -> None:
    window = study.window()
    window.hello()
    started = window.ask("start")
    assert started["settings"]["port"] == started["port"]
    window.close()
    again = study.window()
    again.hello()
    assert again.ask("start")["port"] == started["port"]


@pytest.mark.parametrize(
    ("vault", "reason"),
    [
        ("/", "The root of the file system can't be a vault"),
        ("/nowhere/at/all", "There is no folder '/nowhere/at/all' to serve"),
        ("Notes", "The vault's path must be a whole one"),
    ],
)
def test_what_is_no_vault_is_refused(study: Study, vault: str, reason: str) -> None:
    window = study.window()
    window.hello(vault=vault)
    with pytest.raises(Refused, match=reason) as refused:
        window.ask("start")
    assert refused.value.code == "vault"
    assert window.ended() == 1
    assert not study.root.exists()


def test_a_setting_that_is_wrong_ends_no_other_window(study: Study) -> None:
    first = study.window()
    first.start()
    (study.state / "config.toml").write_text("[plum]\n")
    second = study.window()
    with pytest.raises(Refused, match="plum") as refused:
        second.start()
    assert refused.value.code == "config"
    assert first.ask("status")["phase"] in ("indexing", "running")


def test_a_second_start_is_refused(study: Study) -> None:
    window = study.window()
    window.start()
    with pytest.raises(Refused) as refused:
        window.ask("start")
    assert refused.value.code == "conflict"
    with pytest.raises(Refused) as refused:
        window.hello()
    assert refused.value.code == "protocol"


# secrets, and noise


@linux
def test_l02_l14_the_token_is_in_no_argument_no_environment_and_not_in_the_vault(study: Study) -> None:
    window = study.window(env=MEANING)
    window.start(allowWrites=True)
    window.settled()
    first = window.ask("token/get")["token"]
    window.ask("token/rotate")
    secrets = [first, window.ask("token/get")["token"], (study.state / "local.key").read_text().strip()]
    window.ask("connect/get", client="claude-code")
    processes = family(window.process.pid)
    assert len(processes) >= 2
    for pid in processes:
        told = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert b"sidecar" in told
        assert not any(secret.encode() in told for secret in secrets)
    for path in study.vault.rglob("*"):
        assert not path.is_file() or not any(secret.encode() in path.read_bytes() for secret in secrets)
    assert not any(secret in window.stderr() for secret in secrets)
    assert [path.name for path in (study.vault / ".obsidian").iterdir()] == []


def test_an_injected_token_is_taken_out_of_the_environment_and_can_not_be_replaced(study: Study) -> None:
    token = "vsc_test-token-0123456789-0123456789-0123456789"
    names = {"VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV": "PLUM_TOKEN", "PLUM_TOKEN": token}
    window = study.window(env={**MEANING, **names})
    window.start()
    window.settled()
    assert window.ask("token/get") == {"token": token, "keptIn": "the environment variable PLUM_TOKEN"}
    with pytest.raises(Refused, match="change it there and restart") as refused:
        window.ask("token/rotate")
    assert refused.value.code == "overridden"
    for pid in children(window.process.pid):
        assert token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert token not in window.stderr()


def test_what_libraries_print_does_not_meet_the_protocol(study: Study) -> None:
    code = (
        "import os, sys, threading, time\n"
        "def noise():\n"
        "    while True:\n"
        "        print('noise of python'); os.write(1, b'{\"noise\": 1}\\n'); time.sleep(0.001)\n"
        "import sidecar.cli.stdout as stdout\n"
        "claim = stdout.claim\n"
        "def claimed():\n"
        "    own = claim(); threading.Thread(target=noise, daemon=True).start(); return own\n"
        "stdout.claim = claimed\n"
        "from sidecar.cli.main import main\n"
        f"main(['bridge', '--state', {str(study.root)!r}])\n"
    )
    window = study.window(command=[sys.executable, "-c", code])
    window.start()
    window.settled()
    assert window.close() == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in window.raw.splitlines())
    assert b"noise" not in window.raw
    assert "noise" in window.stderr()


def test_too_many_requests_at_once_are_refused_and_end_nothing(study: Study) -> None:
    window = study.window()
    window.start()
    begun = [window.begin("connect/get", client="claude-code") for _ in range(500)]
    codes: list[str] = []
    for message_id in begun:
        try:
            window.answer(message_id)
        except Refused as refused:
            codes.append(refused.code)
    assert set(codes) <= {"busy"} and len(codes) < 500
    assert window.ask("status")["port"]


def test_the_other_signals_and_closings_are_quiet(study: Study) -> None:
    window = study.window()
    window.hello()
    window.process.send_signal(signal.SIGINT)
    assert window.ended() == 0
    assert window.hear("ending")["problem"]["code"] == "stopped"


def test_a_reader_that_has_gone_does_not_stop_the_daemon(study: Study) -> None:
    reading, writing = os.pipe()
    with closing(os.fdopen(writing, "wb")):
        os.close(reading)
        process = subprocess.Popen(
            [*COMMAND, "--state", str(study.root)],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=REPOSITORY,
        )
    with process:
        assert process.stdin is not None
        hello = {"protocol": 1, "plugin": "1", "vault": str(study.vault)}
        for number, (method, params) in enumerate([("hello", hello), ("start", {"settings": {"port": 0}})]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        wait_until(lambda: study.state.is_dir() and endpoint.read(study.state) is not None, within_s=PATIENCE_S)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
