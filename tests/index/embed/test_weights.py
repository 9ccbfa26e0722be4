"""Files of weights are found without an import and believed by their hash alone."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from sidecar.errors import Unreadable
from sidecar.index.embed.weights import MODELS, NoModel, Part, checked, found, is_present, is_right
from tests.index.embed.conftest import installed

GOOD = b"good weights"
PART = Part("e5", "some_weights", "inner/some.bin", hashlib.sha256(GOOD).hexdigest(), "get it anew", movable=True)


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that holds the file; importing it fails."""
    file = tmp_path / "site" / "some_weights" / "inner" / "some.bin"
    file.parent.mkdir(parents=True)
    file.write_bytes(GOOD)
    (tmp_path / "site" / "some_weights" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return file


def test_a_file_in_a_package_is_found_without_importing_it(package: Path, models_dir: Path) -> None:
    assert checked(PART, models_dir) == package
    assert "some_weights" not in sys.modules


def test_a_file_in_the_models_folder_is_found(models_dir: Path) -> None:
    (models_dir / "some.bin").write_bytes(GOOD)
    assert checked(PART, models_dir) == models_dir / "some.bin"


def test_a_damaged_copy_gives_way_to_a_good_one(package: Path, models_dir: Path) -> None:
    package.write_bytes(GOOD[:-1])
    (models_dir / "some.bin").write_bytes(GOOD)
    assert checked(PART, models_dir) == models_dir / "some.bin"


def test_a_wrong_hash_is_an_error_that_says_what_to_do(package: Path, models_dir: Path) -> None:
    package.write_bytes(GOOD + b".")
    with pytest.raises(Unreadable) as refused:
        checked(PART, models_dir)
    sentence = str(refused.value)
    assert (
        sentence
        == "some.bin of the embedding model e5 is damaged or of another version: its hash is wrong; get it anew"
    )


def test_a_missing_file_is_an_error_that_says_what_to_do(models_dir: Path) -> None:
    with pytest.raises(NoModel) as refused:
        checked(PART, models_dir)
    assert str(refused.value) == "the embedding model e5 is not here (some.bin is missing); get it anew"


def test_only_movable_files_are_looked_for_in_the_models_folder(models_dir: Path) -> None:
    (models_dir / "some.bin").write_bytes(GOOD)
    part = Part("use", "some_weights", "inner/some.bin", PART.sha256, "install it")
    assert list(found(part, models_dir)) == []


def test_what_can_t_be_read_is_not_right(models_dir: Path) -> None:
    assert not is_right(PART, models_dir)
    assert not is_right(PART, models_dir / "nothing")


@pytest.mark.parametrize("model", MODELS)
def test_the_installed_models_have_the_known_hashes(model: str, tmp_path: Path) -> None:
    assert model in ("e5", "use")
    installed(model)
    assert is_present(model, tmp_path)
    for part in MODELS[model]:
        assert is_right(part, checked(part, tmp_path))
