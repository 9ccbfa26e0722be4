"""A real daemon that keeps its vectors on a Chroma server and has them made by a service, all by its settings."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.daemons import START_S, environment, start_daemon
from tests.e2e.served import PATIENCE_S, Served, patient_and, with_vectors
from tests.e2e.test_meaning import make_vault, wait_for_vectors
from tests.index.embed.service_double import Service, serving
from tests.index.servers import ChromaServer, Relay, chroma_server, relay
from tests.living import arguments, children, environ
from tests.security.starts import Site

SECRETS = {"header": "hush-header", "key": "hush-key"}
NOTES = 260  # so many that processes are started to prepare them


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaServer]:
    with chroma_server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def before(chroma: ChromaServer) -> Iterator[Relay]:
    with relay(chroma.port) as running:
        yield running


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


def settings(before: Relay, service: Service) -> dict[str, str]:
    return with_vectors("openai") | {
        "VAULT_SIDECAR_OPENAI_BASE_URL": service.base_url,
        "VAULT_SIDECAR_OPENAI_MODEL": "m",
        "VAULT_SIDECAR_OPENAI_KEY_ENV": "MY_SERVICE_KEY",
        "MY_SERVICE_KEY": SECRETS["key"],
        "VAULT_SIDECAR_VECTORS_BACKEND": "http",
        "VAULT_SIDECAR_VECTORS_PORT": str(before.port),
        "VAULT_SIDECAR_VECTORS_HEADERS": f"X-Chroma-Token: {SECRETS['header']}",
        "VAULT_SIDECAR_LOG_LEVEL": "debug",
    }


STAY = "from sidecar.index.preparers import Preparers\nPreparers._drop_pool = lambda self: None\n"
"""What prepares notes does not end before the daemon, and so is seen."""


def looked_into(pids: list[int], seen: dict[int, bytes]) -> None:
    """Add what other processes could read of these: arguments and environment."""
    for pid in pids:
        if parts := arguments(pid) + environ(pid):
            seen[pid] = parts  # the latest: a child that was not yet another program looks like the daemon for a moment


def watched(served: Served) -> dict[int, bytes]:
    """What others could read of the daemon's children until everything is indexed."""
    seen: dict[int, bytes] = {}
    give_up = time.monotonic() + PATIENCE_S
    while not (status := served.admin("status"))["settled"]:
        looked_into(children(served.daemon.pid), seen)
        assert time.monotonic() < give_up, status
    wait_for_vectors(served)
    looked_into(children(served.daemon.pid), seen)
    assert any(b"sidecar.index.worker" in parts for parts in seen.values())
    assert any(b"multiprocessing" in parts for parts in seen.values())  # what prepares notes
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_secrets_of_server_and_service_go_to_these_only(tmp_path: Path, before: Relay, service: Service) -> None:
    vault = make_vault(tmp_path / "vault", NOTES)
    daemon = start_daemon(vault, tmp_path / "state", env=settings(before, service) | patient_and(tmp_path, STAY))
    served = Served(daemon, tmp_path / "state")
    try:
        seen = watched(served)
        status = served.admin("status")
        assert (status["backend"], str(status["embedder"]).partition("@")[0]) == ("http", "openai:m")
        assert "[Keywords only" not in served.call("semantic_search", query="thing7").text
    finally:
        served.close()
        assert daemon.stop() == 0
    assert all(asked.headers["authorization"] == f"Bearer {SECRETS['key']}" for asked in service.asked)
    assert all(f"x-chroma-token: {SECRETS['header']}\r\n" in head.lower() for head in before.heads())
    assert service.asked and before.heads()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    for secret in SECRETS.values():
        assert secret not in daemon.stderr()
        assert secret.encode() not in kept
        assert not [pid for pid, parts in seen.items() if secret.encode() in parts]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_without_taking_them_out_of_the_environment_other_processes_would_have_them(
    tmp_path: Path, before: Relay, service: Service
) -> None:
    """Control of the one above."""
    keep = "import sidecar.index.vector_options as options\noptions.secret_variables = lambda config: []\n"
    with closing(Site(tmp_path)) as site:
        for note in make_vault(tmp_path / "notes", NOTES).iterdir():
            note.rename(site.vault / note.name)
        daemon = site.start(**(settings(before, service) | site.run_first(keep + STAY)))
        with closing(Served(daemon, site.root)) as served:
            seen = watched(served)
        for secret in SECRETS.values():
            assert [pid for pid, parts in seen.items() if secret.encode() in parts]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"VAULT_SIDECAR_VECTORS_BACKEND": "cloud"}, "needs its key in the environment variable CHROMA_API_KEY"),
        ({"VAULT_SIDECAR_INDEX_EMBEDDER": "openai"}, "needs [openai] model"),
        ({"VAULT_SIDECAR_VECTORS_HEADERS": f"bad name: {SECRETS['header']}"}, "must have names of HTTP headers"),
    ],
)
def test_settings_that_do_not_fit_together_stop_the_start(tmp_path: Path, wrong: dict[str, str], sentence: str) -> None:
    vault = make_vault(tmp_path / "vault", 1)
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "serve", "--port", "0", "--vault", vault, "--state", tmp_path / "state"],
        env=environment(**(with_vectors("hash") | wrong)),
        capture_output=True,
        text=True,
        timeout=START_S,
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert SECRETS["header"] not in done.stderr
