"""The real models where they are installed, and ways to hide them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.index.embed.e5_file import WeightFile
from sidecar.index.embed.weights import E5_WEIGHTS, MODELS, Model, checked, is_present


def installed(model: Model) -> None:
    """Skip what needs a model that is not here."""
    if not is_present(model, Path()):
        pytest.skip(f"the weights of {model} are not installed; its packages are not for every system")


@pytest.fixture
def weights() -> Iterator[WeightFile]:
    """The weight file of e5."""
    installed("e5")
    found = WeightFile(checked(E5_WEIGHTS, Path()))
    yield found
    found.close()


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], None]:
    """Makes a model's package look as if it were not installed."""

    def hide(model: Model) -> None:
        for part in MODELS[model]:
            monkeypatch.setitem(sys.modules, part.package, None)

    return hide
