"""Finds the command, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from sidecar.cli.parser import build_parser
from sidecar.errors import SidecarError
from sidecar.vault.paths import printable

if TYPE_CHECKING:
    from argparse import Namespace

_INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit code: 0 done, 1 refused or failed, 2 usage, 3 another daemon serves this vault."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a title the terminal can't show is no reason to fail
    args = build_parser().parse_args(argv)
    run = cast("Callable[[Namespace], int]", importlib.import_module(args.module).run)
    try:
        code = run(args)
        print(end="", flush=True)  # a reader that has gone shows here, not when the interpreter ends
        return code
    except SidecarError as error:
        sentence = "; ".join(printable(line) for line in str(error).splitlines())
        print(f"vault-sidecar: {sentence}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
