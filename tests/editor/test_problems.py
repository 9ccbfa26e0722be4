"""Errors as the plugin shows them."""

from __future__ import annotations

import pytest

from sidecar import errors
from sidecar.editor.problems import of_error, problem
from sidecar.errors import SidecarError
from tests.editor import law


def all_errors(kind: type[SidecarError] = SidecarError) -> list[type[SidecarError]]:
    return [
        kind,
        *(
            found
            for child in kind.__subclasses__()
            if child.__module__ == errors.__name__
            for found in all_errors(child)
        ),
    ]


@pytest.mark.parametrize("kind", all_errors())
def test_every_error_has_a_code_of_the_protocol_and_a_sentence(kind: type[SidecarError]) -> None:
    found = of_error(kind("the plum is\n  not ripe"))
    law.check("error.data", found)
    assert found["reason"] == "The plum is not ripe."
    assert found["code"] != "internal" or kind in (SidecarError, errors.Unreachable)


def test_a_mistake_of_ours_tells_nothing() -> None:
    found = of_error(RuntimeError("/home/somebody/Secret.md"))
    law.check("error.data", found)
    assert found["code"] == "internal" and "Secret" not in str(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Something went wrong."),
        ("'X.md' is gone", "'X.md' is gone."),
        ("is it?", "Is it?"),
        ("a\x1b[31m\u2028b", "A\\u001b[31m b."),
        ("word " * 100, "Word " + "word " * 58 + "word…"),
    ],
)
def test_a_reason_is_one_sentence_on_one_line(text: str, reason: str) -> None:
    found = problem("disk", text)
    law.check("error.data", found)
    assert found["reason"] == reason
