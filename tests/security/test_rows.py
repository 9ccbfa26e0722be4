"""Each row of the security catalogue that this state of the product owns has a test, found in the sources by its id."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent

OWNED = """
H01-H38 O01-O34 T01-T29 R01-R13 L01-L16 J01-J47 W01-W35 P01-P17 N01-N30
X01-X34 D01-D27 F01-F06 S01-S18
"""
"""Rows, and ranges of rows. A row that the product comes to own is added here first, so that it is missed."""

_ID = re.compile(r"([A-Z]\d\d)(?:-[\w -]*)?")
_IN_NAME = re.compile(r"(?<![a-z0-9])([a-z]\d\d)(?![a-z0-9])")


def owned() -> set[str]:
    """The rows of `OWNED`, one by one."""
    rows: set[str] = set()
    for word in OWNED.split():
        first, _, last = word.partition("-")
        group, numbers = first[0], range(int(first[1:]), int((last or first)[1:]) + 1)
        rows |= {f"{group}{number:02}" for number in numbers}
    return rows


def rows_in(source: str) -> Iterator[str]:
    """Rows that a module of tests names: in a test's name, or in a text that is an id such as `J04`, `J04-1`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from (row.upper() for row in _IN_NAME.findall(node.name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = _ID.fullmatch(node.value)  # the first piece of an f-string comes here as well
            if found:
                yield found[1]


def modules_by_row() -> dict[str, set[str]]:
    """Row to the modules that name it."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for row in rows_in(path.read_text("utf-8")) if path != Path(__file__) else ():
            found.setdefault(row, set()).add(path.name)
    return found


def test_every_row_that_is_owned_has_a_test() -> None:
    assert sorted(owned() - set(modules_by_row())) == []


def test_ranges_are_taken_apart() -> None:
    assert {"H01", "H38", "T29", "X24", "X31", "F04"} <= owned()
    assert not {"H39", "L17", "X35", "P18"} & owned()


def test_only_an_id_or_a_tests_name_counts() -> None:
    source = '''
"""J01 in a docstring."""
# J02 in a comment
ROWS = [("J03", 1), ("J04-two words", 2), ("J05 as a sentence.", 3), f"J06-{number}"]
@pytest.mark.parametrize("x", [pytest.param(1, id="J07")])
def test_j08_j09_something(): ...
def helper_j10(): ...
def test_b64_is_no_row_of_ours_but_looks_like_one(): ...
'''
    assert set(rows_in(source)) == {"J03", "J04", "J06", "J07", "J08", "J09", "B64"}
