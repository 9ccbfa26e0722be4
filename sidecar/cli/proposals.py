"""`proposals list|show|apply|reject`: what clients suggest, for the vault's owner to decide on."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sidecar.bridge import private_files
from sidecar.bridge.client import LocalClient, NotRunning
from sidecar.cli import changes, diff_view, where
from sidecar.cli.ink import Ink, visible
from sidecar.cli.where import Where

if TYPE_CHECKING:
    from sidecar.services.proposals_alone import Alone

_SHORTEST_END: Final = 6
_MOST_NAMES: Final = 3
_WIDEST: Final = 100

Facts = dict[str, Any]


def run(args: Namespace) -> int:
    """Do `args.action`. What is shown goes to stdout, questions and what was done to stderr."""
    place = where.find(args)
    ink = Ink.for_stream(sys.stdout)
    match args.action:
        case "list":
            return _list(place, args, ink)
        case "show":
            facts = _look(place, args.id)
            _print(args, facts, lambda: _shown(facts, ink))
            return 0
        case "apply":
            return _apply(place, args, ink)
        case _:
            return _reject(place, args)


def _list(place: Where, args: Namespace, ink: Ink) -> int:
    facts = _asked(place, "/admin/proposals", {"all": args.all}, lambda alone: alone.listed(args.all))
    _print(args, facts, lambda: _listed(facts, ink, every=args.all))
    sys.stdout.flush()
    for each in facts["unreadable"] if not args.json else ():
        print(f"passed over {visible(each['name'])}: {visible(each['reason'])}", file=sys.stderr)
    return 0


def _look(place: Where, ending: str) -> Facts:
    return _asked(place, "/admin/proposals/show", {"id": ending}, lambda alone: alone.show(ending).facts())


def _apply(place: Where, args: Namespace, ink: Ink) -> int:
    facts = _look(place, args.id)
    if not args.json:
        _print(args, facts, lambda: _shown(facts, ink))
        sys.stdout.flush()
    elif not args.yes:  # nobody is asked about what was not shown
        sys.stderr.writelines(f"{line}\n" for line in _shown(facts, Ink.for_stream(sys.stderr)))
    if facts["status"] != "open":
        print(visible(facts["problem"]), file=sys.stderr)
        return 1
    if not args.yes and not _agrees("Apply it?" if facts["applicable"] else "It can't be applied. Reject it?"):
        print("nothing was changed", file=sys.stderr)
        return 1
    if facts["applicable"] or args.yes:
        settled = _decide(
            place,
            lambda client: client.post("/admin/proposals/apply", id=facts["id"], by="cli", seen=facts["checksum"]),
            lambda alone: alone.apply(facts["id"], "cli", facts["checksum"]),
        )
    else:  # also if it could be applied by now: nobody has agreed to that
        settled = _rejected(place, facts["id"], facts["problem"])
    if args.json:
        print(json.dumps(settled))
    if settled["status"] != "applied":
        print(f"rejected {settled['id']}: {visible(settled['resolution']['reason'])}", file=sys.stderr)
        return 1
    if not args.json:
        print(_said(settled), file=sys.stderr)
    return 0


def _reject(place: Where, args: Namespace) -> int:
    settled = _rejected(place, args.id, args.reason)
    if args.json:
        print(json.dumps(settled))
    else:
        print(f"rejected {settled['id']}", file=sys.stderr)
    return 0


def _rejected(place: Where, proposal_id: str, reason: str | None) -> Facts:
    return _decide(
        place,
        lambda client: client.post("/admin/proposals/reject", id=proposal_id, by="cli", reason=reason),
        lambda alone: alone.reject(proposal_id, "cli", reason),
    )


# through the daemon, or without one


def _asked(place: Where, path: str, body: Facts, alone: Callable[[Alone], Facts]) -> Facts:
    """What the daemon says, or what is in the vault. Nothing is changed, so no lock is needed."""
    try:
        with LocalClient(place.state_dir) as client:
            return client.post(path, **body)
    except NotRunning:
        return _without_daemon(place, alone)


def _without_daemon(place: Where, do: Callable[[Alone], Facts]) -> Facts:
    from sidecar.services.proposals_alone import open_alone  # slower to import than all of the above

    with open_alone(place.vault, place.state_dir, where.load_config(place)) as alone:
        return do(alone)


def _decide(place: Where, ask: Callable[[LocalClient], Facts], alone: Callable[[Alone], Facts]) -> Facts:
    if place.vault.is_dir():
        # a vault that was never served here may have proposals from another computer
        private_files.make_folder(place.state_dir)
    return changes.make(place, ask, lambda: _without_daemon(place, alone))


def _agrees(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().casefold() in ("y", "yes")


# for people


def _print(args: Namespace, facts: Facts, lines: Callable[[], Iterator[str]]) -> None:
    if args.json:
        print(json.dumps(facts))
        return
    for line in lines():
        print(line)


def _listed(facts: Facts, ink: Ink, *, every: bool) -> Iterator[str]:
    proposals: list[Facts] = facts["proposals"]
    if not proposals:
        yield "no proposals" if every else "no open proposals"
    ids = [each["id"] for each in proposals]
    for each in proposals:
        status = f"  {_status(each, ink)}" if every else ""
        yield f"{_short(each['id'], ids, ink)}  {_local(each['created'])}  {visible(each['author'])}{status}"
        yield f"    {visible(each['title'])}"
        yield f"    {ink.dim(_names(each['files']))}"


def _shown(facts: Facts, ink: Ink) -> Iterator[str]:
    yield ink.bold(visible(facts["title"]))
    yield f"{facts['id']}  {_local(facts['created'])}  {visible(facts['author'])}  {_status(facts, ink)}"
    if facts["rationale"].strip():
        yield ""
        yield from _wrapped(facts["rationale"])
    yield ""
    yield from diff_view.lines(facts["diff"], ink)
    yield ""
    if facts["applicable"]:
        yield ink.green("It can be applied.")
    elif facts["status"] == "open":
        yield f"{ink.yellow('It cannot be applied:')} {visible(facts['problem'])}"
    elif facts["resolution"]:
        at, by, reason = (facts["resolution"][key] for key in ("at", "by", "reason"))
        yield f"It was {_status(facts, ink)} {_local(at)} by {by}{f': {visible(reason)}' if reason else '.'}"


def _said(settled: Facts) -> str:
    parts = [
        f"{what} {', '.join(map(visible, settled[key]))}"
        for what, key in (("changed", "changed_notes"), ("created", "created_notes"))
        if settled[key]
    ]
    count = len(settled["changed_notes"])
    texts = "old text is" if count == 1 else "old texts are"
    kept = f"; the {texts} kept, see 'vault-sidecar recover list'" if count else ""
    return f"applied {settled['id']}: {'; '.join(parts)}{kept}"


def _status(facts: Facts, ink: Ink) -> str:
    paint = {"applied": ink.green, "rejected": ink.red}.get(facts["status"], ink.yellow)
    return paint(facts["status"])


def _short(proposal_id: str, ids: Sequence[str], ink: Ink) -> str:
    """The id, with the ending marked that is enough to name it."""
    end = _SHORTEST_END
    while sum(each.endswith(proposal_id[-end:]) for each in ids) > 1:
        end += 1
    return f"{ink.dim(proposal_id[:-end])}{ink.bold(proposal_id[-end:])}"


def _names(files: Sequence[str]) -> str:
    rest = len(files) - _MOST_NAMES
    return visible(", ".join(files[:_MOST_NAMES])) + (f" and {rest} more" if rest > 0 else "")


def _wrapped(text: str) -> Iterator[str]:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for line in text.strip("\n").split("\n"):
        yield from textwrap.wrap(visible(line), width, initial_indent="  ", subsequent_indent="  ") or [""]


def _local(moment: str) -> str:
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # not every year has a place in every time zone
        return moment
