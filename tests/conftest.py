"""What every test gets: the corpora, and a guard against blocking calls on the event loop."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # onnxruntime looks up its maker's host when it is imported

# an example may take as long as a busy machine takes for it
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def loop_guard() -> Iterator[BlockBuster]:
    """Blocking I/O on a running loop fails the test, if our code makes the call."""
    with blockbuster_ctx("sidecar") as guard:
        yield guard


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The shared data; a clone without it skips the tests that need it."""
    folder = Path(os.environ.get("VAULT_SIDECAR_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if not folder.is_dir():
        pytest.skip("the shared corpora are not here; VAULT_SIDECAR_CORPORA may name their folder")
    return folder


def unpack(archive: Path, target: Path) -> Path:
    """An archive of the corpora, unpacked."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    return target
