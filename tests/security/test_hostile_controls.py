"""Controls of group N: what the hostile notes do to a program without the defences. They are not harmless."""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from sidecar.surfaces.notes import tools
from sidecar.vault import frontmatter
from sidecar.vault.frontmatter import Frontmatter
from sidecar.vault.notes import parse_note
from sidecar.vault.paths import VaultPath
from tests.effort import growth
from tests.security.ground import write
from tests.security.inside import served_here
from tests.security.test_hostile_notes import bomb


def test_an_alias_bomb_explodes_where_aliases_are_read() -> None:
    """N01 and N02: loaded in an instant, written nine times as long for each level."""
    lengths = [len(json.dumps(yaml.safe_load(bomb(levels)))) for levels in (2, 3, 4, 5)]
    assert lengths[-1] > 9**5
    assert all(longer > 8 * shorter for shorter, longer in itertools.pairwise(lengths))


def test_an_alias_of_itself_can_not_be_written_as_json() -> None:
    """N03."""
    with pytest.raises(ValueError, match="Circular"):
        json.dumps(yaml.safe_load("&a [*a]"))


def test_a_tag_runs_code_where_tags_are_obeyed(tmp_path: Path) -> None:
    """N04."""
    pwned = tmp_path / "pwned"
    text = f'a: !!python/object/apply:os.mkdir ["{pwned}"]'
    assert frontmatter.read(text).values == {}
    assert not pwned.exists()
    yaml.load(text, Loader=yaml.UnsafeLoader)
    assert pwned.is_dir()


@pytest.mark.parametrize(
    "text, error",
    [
        pytest.param("a: !foo x", yaml.constructor.ConstructorError, id="N05"),
        pytest.param("a: " + "[" * 5000, RecursionError, id="N06"),
        pytest.param("a: " + "1" * 5000, ValueError, id="N07"),
        pytest.param("a: 2026-13-45", ValueError, id="N08"),
    ],
)
def test_a_common_loader_fails_with_whatever_comes(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        yaml.load(text, Loader=yaml.SafeLoader)


def test_a_common_loader_changes_what_was_written() -> None:
    """N09."""
    values = yaml.safe_load("a: NO\nb: 1.10\nc: 1:59:59\n1: x\nnull: y")
    assert values == {"a": False, "b": 1.1, "c": 7199, 1: "x", None: "y"}
    with pytest.raises(TypeError):
        json.dumps(yaml.safe_load("a: 2026-04-05"))


def test_with_a_common_loader_a_wrong_date_loses_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N08, served."""
    write(tmp_path / "base/vault", "a.md", "---\ncreated: 2026-13-45\n---\nbody 2209\n")
    with served_here(tmp_path / "base", tmp_path / "state") as ground:
        assert ground.found("body 2209") == ["a.md"]
    monkeypatch.setattr(frontmatter, "read", lambda block: Frontmatter(yaml.safe_load(block)))
    with served_here(tmp_path / "base", tmp_path / "other state") as ground:
        assert ground.found("body 2209") == []
        assert list(ground.skipped()) == ["a.md"]


def test_without_escapes_a_name_forges_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N23, served."""
    monkeypatch.setattr(tools, "printable", lambda text: text)
    write(tmp_path / "base/vault", "line\nforged.md")
    with served_here(tmp_path / "base", tmp_path / "state") as ground:
        assert "forged.md" in ground.listed()


def test_a_usual_pattern_for_frontmatter_is_quadratic() -> None:
    """N13."""
    pattern = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
    assert growth(lambda size: pattern.match("---" + "\n" * size), 1000, 4) > 8
    assert growth(lambda size: frontmatter.split("---" + "\n" * size), 100_000, 4, enough=6) <= 6


def test_a_usual_pattern_for_links_is_quadratic() -> None:
    """N14."""
    pattern = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
    assert growth(lambda size: pattern.search("[" * size), 1000, 4) > 8
    assert growth(lambda size: parse_note(VaultPath("a.md"), b"[" * size), 100_000, 4, enough=6) <= 6


def test_text_that_is_decoded_strictly_stops_the_reader() -> None:
    """N17."""
    with pytest.raises(UnicodeDecodeError):
        b"caf\xe9".decode()


def test_a_query_that_is_a_pattern_finds_what_does_not_hold_it() -> None:
    """N24."""
    for query in ("*", "a*"):
        assert fnmatch.fnmatch("abc 123", query)
    for query in (".*", "a.c", "\\d", "^"):
        assert re.search(query, "abc 123")
    for query in ("(?:", "[", "\\"):
        with pytest.raises(re.error):
            re.compile(query)
    with closing(sqlite3.connect(":memory:")) as connection:
        for query in ("%", "_"):
            assert connection.execute("SELECT 'abc 123' LIKE '%' || ? || '%'", (query,)).fetchone() == (1,)


def test_a_query_that_is_a_pattern_can_take_for_ever() -> None:
    """N24: twice the time for each letter."""

    def seconds(letters: int) -> float:
        begin = time.process_time()
        assert not re.search("(a+)+$", "a" * letters + "!")
        return time.process_time() - begin

    assert seconds(18) > 4 * min(seconds(14) for _ in range(5))
