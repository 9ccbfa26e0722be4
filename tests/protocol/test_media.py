from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from sidecar.protocol.media import accepted, is_json


@pytest.mark.parametrize(
    "value, expected",
    [
        ("application/json", True),
        ("Application/JSON; charset=UTF-8", True),
        ('application/json;charset="utf-8"', True),
        ("application/json;", True),
        ("application/json; charset=utf-16", False),
        ("application/json; charset=utf-8; charset=utf-16", False),
        ("application/json, text/plain", False),
        ("application/jsonp", False),
        ("application/json-seq", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_only_json_in_utf_8_is_json(value: str, expected: bool) -> None:
    assert is_json(value) is expected


@pytest.mark.parametrize(
    "values, expected",
    [
        (["application/json, text/event-stream"], (True, True)),
        (["application/json", "text/event-stream"], (True, True)),
        (["*/*"], (True, True)),
        (["application/*"], (True, False)),
        (["text/event-stream"], (False, True)),
        (["TEXT/*;q=0.5"], (False, True)),
        (["application/json;q=0, */*;q=0.0"], (False, False)),
        (["text/html"], (False, False)),
        ([""], (False, False)),
        ([], (True, True)),
    ],
    ids=repr,
)
def test_what_a_client_takes_is_read_from_accept(values: list[str], expected: tuple[bool, bool]) -> None:
    headers = CIMultiDict([("Accept", value) for value in values])
    assert accepted(make_mocked_request("POST", "/mcp", headers=headers)) == expected
