"""`scripts/bench peers`: this product beside others that let an AI client search a folder of notes, in one run.

Each product indexes a copy of its own of the same vault and is asked as an AI
client asks it, over MCP, for words alone: the others' search by meaning needs
models that they download. Ours is measured once more with search by meaning.
A product is looked for in PATH; one that is not installed is left out. No
search leaves this computer, and no product sees the person's home. Read the
ratios; the times of another machine or hour are other times.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.foreign import Failed, Home, text_of
from scripts.speed import (
    ARCHIVES,
    PROBE,
    corpora_of,
    daemon,
    memory_mb,
    notes_of,
    percentile,
    queries_of,
    saved_until_found_ms,
    timed_ms,
    unpack_or_make,
)

_QUERIES = 100
_SAVES = 10
_WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Session:
    """A product that has indexed the vault and can be asked."""

    version: str
    index_s: float
    """From the start of its first process until every note can be found."""
    search: Callable[[str], str]
    """One search, as a client does it; the text of the answer."""
    found: Callable[[str], bool]
    """Whether a word that was just saved in the note `PROBE` is found now."""
    pid: int
    """The process at the head of all that stay running."""


@dataclass(frozen=True, slots=True)
class Product:
    """How a product is found, run and asked."""

    name: str
    command: str
    """What must be in PATH; empty for ours."""
    install: str
    notes: str
    """What the figures hold, in a sentence or two."""
    open: Callable[[Home, Path], AbstractContextManager[Session]]
    """Index the vault from cold, then answer until the block ends."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def _ours(home: Home, vault: Path, *, meaning: bool) -> Iterator[Session]:
    with daemon(vault, home.folder / "ours", rag=meaning) as running:
        running.wait_until_settled()
        index_s = time.perf_counter() - running.started
        if meaning:
            running.wait_for_meaning("chunks")
        tool = "semantic_search" if meaning else "search_notes"

        def search(query: str) -> str:
            return text_of(running.call(tool, query=query))

        version = running.admin("status")["version"]
        yield Session(str(version), index_s, search, lambda word: shows(search(word), word), running.process.pid)


def shows(answer: str, word: str) -> bool:
    """Whether our answer quotes the word out of the probe; its first line, which repeats the query, does not count."""
    quoted = answer.partition("\n")[2].replace("[", "").replace("]", "")
    return PROBE in quoted and word in quoted


def names_probe(answer: str) -> bool:
    """Whether another product's answer names the probe, whose path or link it may write with hyphens in lower case.

    Enough where all words of the query must be in a hit: the word is in no note but this.
    """
    return re.search(re.escape(PROBE.removesuffix(".md")).replace(r"\ ", "[ -]"), answer, re.IGNORECASE) is not None


@contextmanager
def _qmd(home: Home, vault: Path) -> Iterator[Session]:
    begin = time.perf_counter()
    home.run("qmd", "collection", "add", str(vault), "--name", "notes")
    index_s = time.perf_counter() - begin
    with home.server("qmd", "mcp") as server:

        def search(query: str) -> str:
            return server.tool("query", searches=[{"type": "lex", "query": query}], limit=10, rerank=False)

        def found(word: str) -> bool:
            home.run("qmd", "update")
            return names_probe(search(word))

        yield Session(version_in(home.run("qmd", "--version")), index_s, search, found, server.pid)


@contextmanager
def _basic_memory(home: Home, vault: Path) -> Iterator[Session]:
    begin = time.perf_counter()
    # in two steps, because `project add` alone goes on to vectors and fails where they are switched off
    home.run("basic-memory", "project", "add", "notes", str(vault), "--default", "--local", "--no-wait")
    home.run("basic-memory", "reindex", "--search", "--project", "notes")
    index_s = time.perf_counter() - begin
    with home.server("basic-memory", "mcp") as server:

        def search(query: str) -> str:
            return server.tool("search_notes", query=query, project="notes", search_type="text", page_size=10)

        version = version_in(home.run("basic-memory", "--version"))
        yield Session(version, index_s, search, lambda word: names_probe(search(word)), server.pid)


def version_in(text: str) -> str:
    """The first version number that a program prints."""
    found = re.search(r"\d+(?:\.\d+)+\S*", text)
    return found[0] if found else "?"


PRODUCTS = (
    Product(
        "vault-sidecar",
        "",
        "",
        "MCP over HTTP, search_notes (the query literally), index.rag off. It watches the vault.",
        lambda home, vault: _ours(home, vault, meaning=False),
    ),
    Product(
        "with meaning",
        "",
        "",
        "vault-sidecar as it comes: semantic_search over MCP, by words and meaning. Memory holds the model.",
        lambda home, vault: _ours(home, vault, meaning=True),
    ),
    Product(
        "qmd",
        "qmd",
        "npm install -g @tobilu/qmd (Node.js 22 or newer)",
        "MCP over stdio, query with one lex part, not reranked. It does not watch: freshness holds `qmd update`.",
        _qmd,
    ),
    Product(
        "basic-memory",
        "basic-memory",
        "uv tool install basic-memory, or pip install basic-memory (Python 3.12 or newer)",
        "MCP over stdio, search_notes of type text. It watches the vault, and writes frontmatter into each note.",
        _basic_memory,
        {
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "BASIC_MEMORY_NO_PROMOS": "1",  # its switch for usage events too
            "BASIC_MEMORY_LOGFIRE_ENABLED": "false",
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "HF_HUB_OFFLINE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",  # else a price list is looked up at import
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of a product: figures by name, or why there are none."""

    name: str
    notes: str
    version: str = ""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    failure: str = ""


def measure(product: Product, vault: Path, scratch: Path, queries: Sequence[str], limit_s: float = 900.0) -> Result:
    """All figures of one product, on a copy of the vault; none of its commands may take longer than the limit."""
    copy = scratch / "vault"
    shutil.copytree(vault, copy, symlinks=True)
    try:
        with product.open(Home(scratch / "home", limit_s, **product.variables), copy) as session:
            for query in queries[:_WARM_UP]:
                session.search(query)
            answers: list[str] = []
            times = timed_ms([lambda q=q: answers.append(session.search(q)) for q in queries])
            saves = saved_until_found_ms(copy, _SAVES, "peer", lambda _sentence, word: session.found(word))
            figures = {
                "index from cold, s": session.index_s,
                "search p50, ms": statistics.median(times),
                "search p95, ms": percentile(times, 0.95),
                "searches with a hit, %": 100 * sum(".md" in answer for answer in answers) / len(answers),
                "save to found p50, ms": statistics.median(saves),
                "memory, MB": memory_mb(session.pid),
            }
    except (Failed, SystemExit) as problem:  # the latter from what is taken of scripts/speed; here the others go on
        return Result(product.name, product.notes, failure=str(problem))
    return Result(product.name, product.notes, session.version, figures)


def table(results: Sequence[Result]) -> list[str]:
    """Lines of text: a row a figure, a column a product, with the ratio to the first one's in brackets."""
    measured = [result for result in results if result.figures]
    if not results[0].figures:
        return []
    base = results[0].figures
    lines = [f"{'':<24}" + "".join(f"{result.name:>24}" for result in measured)]
    for name, ours in base.items():
        cells = [f"{ours:,.1f}" + " " * 10]
        for result in measured[1:]:
            value = result.figures[name]
            cells.append(f"{value:,.1f} {f'({ratio(value, ours)})' if not name.endswith('%') else '':>9}")
        lines.append(f"{name:<24}" + "".join(f"{cell:>24}" for cell in cells))
    return lines


def ratio(value: float, ours: float) -> str:
    """How many times ours a value is, with two significant digits."""
    times = value / ours
    return f"{times:.2f}×" if times < 1 else f"{times:.1f}×" if times < 10 else f"{times:,.0f}×"


def main(argv: list[str]) -> int:
    """Exit code 1 when an installed product could not be measured."""
    parser = argparse.ArgumentParser(prog="scripts/bench peers", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--archive", choices=ARCHIVES, default="small", help="archive of the corpora (default: small)")
    which.add_argument("--notes", type=int, help="generated vault of this many notes, instead")
    parser.add_argument("--keywords", action="store_true", help="without ours by meaning, which takes minutes to index")
    parser.add_argument("--limit-s", type=float, default=900.0, help="longest time for a command of the others (900)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args(argv)
    corpora = corpora_of(parser)
    name = str(options.notes or options.archive)
    results: list[Result] = []
    missing: dict[str, str] = {}
    scratch = Path(tempfile.mkdtemp(prefix="vault-sidecar-peers-"))
    try:
        vault = unpack_or_make(corpora, name, scratch)
        notes, queries = len(notes_of(vault)), queries_of(vault, _QUERIES)
        for product in PRODUCTS:
            if product.command and shutil.which(product.command) is None:
                missing[product.name] = product.install
            elif not (options.keywords and product.name == "with meaning"):
                print(f"measuring {product.name} …", file=sys.stderr)
                place = scratch / product.name.replace(" ", "-")
                results.append(measure(product, vault, place, queries, options.limit_s))
                shutil.rmtree(place, ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{notes:,} notes ({name}); in brackets how many times the first column's")
    print("\n".join(table(results)))
    for result in results:
        print(f"{result.name} {result.version}: {result.failure or result.notes}")
    for absent, install in missing.items():
        print(f"{absent}: not installed; {install}")
    if options.json:
        found = [asdict(result) for result in results]
        options.json.write_text(json.dumps({"vault": name, "notes": notes, "products": found, "missing": missing}))
    return 1 if any(result.failure for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
