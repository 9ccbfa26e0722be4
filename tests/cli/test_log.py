"""The log: one line an entry, no keys, nothing a terminal would obey."""

from __future__ import annotations

import gc
import io
import logging
import re
import warnings
from collections.abc import Generator

import pytest

from sidecar.bridge.token import new_token
from sidecar.cli import log
from sidecar.cli.screen import Screen


@pytest.fixture
def stream() -> Generator[io.StringIO]:
    """Where the log goes; logging is as before after the test."""
    gc.collect()  # what other tests left may write into the log as it goes
    root, ours = logging.getLogger(), logging.getLogger("sidecar")
    before = (root.handlers[:], root.level, ours.level)
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


ENTRY = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d %s: %s"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a\n2026-01-01 00:00:00 INFO    sidecar: forged", id="L12-newline"),
        pytest.param("a\r\x1b[2Kgone", id="L12-escape"),
        pytest.param("a\u2028b\x85c\x0b", id="L12-other-line-ends"),
        pytest.param("a\udcffb", id="L12-not-utf-8"),
    ],
)
def test_a_note_name_stays_on_its_line(stream: io.StringIO, name: str) -> None:
    log.set_up(Screen(stream), "info")
    logging.getLogger("sidecar.index").warning("skipped %s", name)
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert text.strip().isprintable()
    assert re.match(ENTRY % ("WARNING sidecar.index", "skipped a"), text)


def test_a_traceback_cannot_forge_an_entry(stream: io.StringIO) -> None:
    log.set_up(Screen(stream), "info")
    try:
        raise ValueError("bad name\n2026-01-01 00:00:00 INFO    sidecar: forged\x1b[2K")
    except ValueError:
        logging.getLogger("sidecar.index").exception("lost")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("sidecar.index: lost")
    assert rest
    assert all(line.startswith("    | ") for line in rest)
    assert "\x1b" not in stream.getvalue()
    assert any("Traceback" in line for line in rest)


def test_keys_are_cut_out_wherever_they_stand(stream: io.StringIO) -> None:
    """L01."""
    token, injected = new_token(), "a person's own token of 32 letters"
    log.set_up(Screen(stream), "debug", [injected])
    logger = logging.getLogger("sidecar.web")
    logger.debug("got %s and %s", token, injected)
    try:
        raise ValueError(f"Bearer {token}")
    except ValueError:
        logger.exception("failed for %r", {"authorization": token})
    text = stream.getvalue()
    assert token not in text
    assert injected not in text
    assert "got *** and ***" in text
    assert "Bearer ***" in text


def test_without_the_cut_the_keys_would_show(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control of L01."""
    monkeypatch.setattr(log, "_KEYS", "(?!)")
    token = new_token()
    log.set_up(Screen(stream), "debug")
    logging.getLogger("sidecar.web").debug("got %s", token)
    assert token in stream.getvalue()


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_the_settings(stream: io.StringIO, level: str, expected: int) -> None:
    log.set_up(Screen(stream), level)
    logger = logging.getLogger("sidecar.index")
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("x")
    assert len(stream.getvalue().splitlines()) == expected


def test_other_peoples_libraries_are_heard_from_warnings_up_only(stream: io.StringIO) -> None:
    """Some of them log whole requests at lower levels."""
    log.set_up(Screen(stream), "debug")
    logging.getLogger("some.library").info("content of a request")
    logging.getLogger("some.library").warning("trouble")
    assert "content" not in stream.getvalue()
    assert "trouble" in stream.getvalue()


def test_a_warning_of_python_is_an_entry(stream: io.StringIO) -> None:
    log.set_up(Screen(stream), "info")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old ways", stacklevel=1)
        logging.captureWarnings(False)
    assert "py.warnings: " in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1


def test_a_closed_stderr_stops_nothing(stream: io.StringIO) -> None:
    log.set_up(Screen(stream), "info")
    stream.close()
    logging.getLogger("sidecar").warning("nobody hears this")
