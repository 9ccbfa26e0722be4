"""`scripts/bench speed`: index time, freshness, latencies, memory and start time of a real daemon, beside the budgets.

Every figure is taken over loopback from a daemon process of its own, on a copy
of the vault. Times on a shared machine are noisy: read the ratios between rows
of one run, and the budgets as the size of thing to expect.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from scripts.curves import picture

REPOSITORY = Path(__file__).resolve().parent.parent
TOKEN = "speed-bench-token-that-is-long-enough-for-the-check"
PROBE = "Freshness probe.md"
ARCHIVES = ("small", "medium", "large")
_UNTIL_AT_REST_S = 35.0  # the embedder gives back what it needs for passages when none came for 30 s
_MOST_CHUNKS_WAITED_FOR = 8_000  # about three minutes of embedding; idle latencies of larger vaults are left out
_MOST_QUICK_ONES = 150_000  # about as long to be stored, when vectors cost nothing

# budgets of design.md section 8 at 1,000, 10,000 and 100,000 notes; sizes between are interpolated
SIZES = (1_000, 10_000, 100_000)
BUDGETS: dict[str, tuple[float, float, float]] = {
    "keyword index from cold, s": (1.0, 10.0, 100.0),
    "save to searchable p95, ms": (300, 400, 600),
    "keyword query p50, ms": (3, 4, 8),
    "search_notes p50, ms": (15, 60, 500),
    "every note reachable by meaning, s": (30, 240, 2_400),
    "save to found by meaning p95, ms": (600, 800, 1_200),
    "hybrid query p50, ms": (8, 12, 40),
    "hybrid query p99, ms": (20, 30, 100),
    "kp_search p50, ms": (8, 12, 40),
    "kp_related p50, ms": (8, 12, 40),
    "hybrid query during backfill p95, ms": (50, 60, 120),
    "memory, MB": (350, 500, 2_500),
    "warm start to first answer, s": (1.5, 3.0, 10.0),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `budget` is None where none is set."""

    vault: str
    notes: int
    name: str
    value: float
    budget: float | None

    @property
    def ok(self) -> bool:
        return self.budget is None or self.value <= self.budget


def budget(name: str, notes: int) -> float | None:
    """The budget for a vault of this size."""
    steps = BUDGETS.get(name)
    if steps is None:
        return None
    if notes <= SIZES[0]:
        return steps[0]
    for low, high, at_low, at_high in zip(SIZES, SIZES[1:], steps, steps[1:], strict=False):
        if notes <= high:
            return at_low + (at_high - at_low) * (notes - low) / (high - low)
    return steps[-1] * notes / SIZES[-1]


class Daemon:
    """A running daemon and a keep-alive connection to it."""

    def __init__(self, vault: Path, state: Path, *, rag: bool, embedder: str | None = None) -> None:
        environment = {
            **os.environ,
            **({"VAULT_SIDECAR_INDEX_EMBEDDER": embedder} if embedder else {}),
            "VAULT_SIDECAR_INDEX_RAG": "true" if rag else "false",
            "VAULT_SIDECAR_HTTP_BEARER_TOKEN_ENV": "SPEED_BENCH_TOKEN",
            "SPEED_BENCH_TOKEN": TOKEN,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "PYTHONPATH": str(REPOSITORY),
        }
        command = [
            sys.executable,
            "-m",
            "sidecar",
            "serve",
            "--vault",
            str(vault),
            "--state",
            str(state),
            "--port",
            "0",
        ]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert self.process.stdout is not None
        url = self.process.stdout.readline().decode().strip()
        if not url:
            raise SystemExit("the daemon did not start; run scripts/serve to see why")
        self.ready_s = time.perf_counter() - self.started
        self.port = int(url.rsplit(":", 1)[1].split("/", 1)[0])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        [key_file] = state.rglob("local.key")
        self._local_key = key_file.read_text().strip()

    def admin(self, path: str) -> dict[str, object]:
        """GET below /admin with the local key."""
        self.connection.request("GET", f"/admin/{path}", headers={"Authorization": f"Bearer {self._local_key}"})
        return self._answer()

    def call(self, tool: str, **arguments: object) -> dict[str, object]:
        """tools/call over MCP with the token."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self.connection.request("POST", "/mcp", json.dumps(body), headers)
        return self._answer()

    def _answer(self) -> dict[str, object]:
        response = self.connection.getresponse()
        body = response.read()
        if response.status not in (200, 503):  # 503: too early
            raise SystemExit(f"the daemon answered {response.status}: {body[:200]!r}")
        return json.loads(body)

    def wait_until_settled(self) -> None:
        """Wait for the first generation at which nothing is queued."""
        while not (state := self.admin("status"))["settled"]:
            self.admin(f"status?after={state['generation']}&wait_s=0.25")

    def wait_for_meaning(self, part: str) -> float:
        """Wait until all of a `part` ("notes" or "chunks") have a vector; seconds since the start of the process."""
        while True:
            state = self.admin("status")
            counts = state[part]
            assert isinstance(counts, dict)
            if counts["vector"] >= counts["keyword" if part == "notes" else "total"]:
                return time.perf_counter() - self.started
            if str(state["vectors"]).startswith("off"):
                raise SystemExit(f"there are no vectors to measure: {state['vectors']}")
            time.sleep(0.2)

    def memory_mb(self) -> float:
        """Proportional set size of the process and of those it has started."""
        return memory_mb(self.process.pid)

    def stop(self) -> None:
        """End it as a person would."""
        self.connection.close()
        self.process.terminate()
        self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def daemon(vault: Path, state: Path, *, rag: bool, embedder: str | None = None) -> Iterator[Daemon]:
    """A daemon that ends with the block."""
    running = Daemon(vault, state, rag=rag, embedder=embedder)
    try:
        yield running
    finally:
        running.stop()


def memory_mb(pid: int) -> float:
    """Proportional set size of a process and of all below it."""
    pids = [pid]
    for parent in pids:  # grows while it is walked
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            pids += [int(child) for child in task.read_text().split()]
    rollups = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in pids]
    lines = [line for rollup in rollups for line in rollup.splitlines() if line.startswith("Pss:")]
    return sum(int(line.split()[1]) for line in lines) / 1024


def timed_ms(calls: list[Callable[[], object]]) -> list[float]:
    """How long each call takes."""
    times: list[float] = []
    for call in calls:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def notes_of(vault: Path) -> list[Path]:
    """Files that are notes, by path."""
    found = (path for path in vault.rglob("*.md") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if "/." not in str(path))


def queries_of(vault: Path, count: int) -> list[str]:
    """Word triples out of the notes themselves, the same for the same vault."""
    chance = random.Random(1)
    notes = notes_of(vault)
    found: list[str] = []
    while len(found) < count:
        words = [word for word in chance.choice(notes).read_text("utf-8", "replace").split() if word.isalpha()]
        if len(words) >= 5:
            start = chance.randrange(len(words) - 3)
            found.append(" ".join(words[start : start + 3]))
    return found


def freshness_ms(running: Daemon, vault: Path, saves: int, mode: str) -> list[float]:
    """Time from a finished save until a search of that mode finds its new text."""

    def found(sentence: str, word: str) -> bool:
        return _is_found(running.admin(f"search?k=10&mode={mode}&q={quote(sentence)}"), PROBE, word)

    return saved_until_found_ms(vault, saves, mode, found)


def saved_until_found_ms(vault: Path, saves: int, label: str, found: Callable[[str, str], bool]) -> list[float]:
    """Time from a finished save of the note `PROBE` until `found(its sentence, the new word in it)`."""
    times: list[float] = []
    for turn in range(saves):
        word = f"fresh{label}{turn}word{os.getpid()}"
        # new words mostly, so that the embedder `hash`, which knows words alone, tells it from a hundred thousand notes
        sentence = f"A walk from {word}ton to the lighthouse of {word}, {word}shire, by {word}bridge and {word}ham."
        (vault / PROBE).write_text(f"# Probe\n\n{sentence}\n")
        begin = time.perf_counter()
        while not found(sentence, word):
            if time.perf_counter() - begin > 60:
                raise SystemExit("a saved note was not searchable within a minute")
            time.sleep(0.002)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def _is_found(answer: dict[str, object], path: str, word: str) -> bool:
    results = answer["results"]
    assert isinstance(results, list)
    return any(hit["path"] == path and word in hit["snippet"].replace("[", "").replace("]", "") for hit in results)


def measure(name: str, vault: Path, state: Path, *, rag: bool, embedder: str | None = None) -> list[Figure]:
    """All figures of one vault."""
    figures: dict[str, float] = {}
    with daemon(vault, state, rag=rag, embedder=embedder) as running:
        figures["process start to URL, s"] = running.ready_s
        running.wait_until_settled()
        figures["keyword index from cold, s"] = time.perf_counter() - running.started - running.ready_s
        notes = running.admin("status")["notes"]
        assert isinstance(notes, dict)
        queries = queries_of(vault, 200)
        if rag:
            figures |= _meaning(running, vault, queries, quick=embedder == "hash")
        ranked = _ranked_ms(running, queries, "keyword")
        paths = [str(path.relative_to(vault)) for path in notes_of(vault)[:100]]
        literal = timed_ms([lambda q=q: running.call("search_notes", query=q) for q in queries[:60]])
        figures["keyword query p50, ms"] = statistics.median(ranked)
        figures["keyword query p99, ms"] = percentile(ranked, 0.99)
        figures["search_notes p50, ms"] = statistics.median(literal)
        figures["read_note p50, ms"] = statistics.median(
            timed_ms([lambda path=path: running.call("read_note", path=path) for path in paths])
        )
        saves = freshness_ms(running, vault, 40, "keyword")
        figures["save to searchable p50, ms"] = statistics.median(saves)
        figures["save to searchable p95, ms"] = percentile(saves, 0.95)
        figures["memory right after saves, MB"] = running.memory_mb()
        time.sleep(_UNTIL_AT_REST_S)
        figures["memory, MB"] = running.memory_mb()
    with daemon(vault, state, rag=rag, embedder=embedder) as running:
        while "results" not in running.admin(f"search?k=1&q={quote(queries[0])}"):
            time.sleep(0.005)
        running.call("search_notes", query=queries[0])
        figures["warm start to first answer, s"] = time.perf_counter() - running.started
    total = int(notes["total"])
    return [Figure(name, total, key, value, budget(key, total)) for key, value in figures.items()]


def _ranked_ms(running: Daemon, queries: list[str], mode: str) -> list[float]:
    return timed_ms([lambda q=q: running.admin(f"search?k=10&mode={mode}&q={quote(q)}") for q in queries])


def _meaning(running: Daemon, vault: Path, queries: list[str], *, quick: bool) -> dict[str, float]:
    """Figures of the vector half, from the time when the keyword index is ready. `quick`: vectors cost nothing."""
    figures: dict[str, float] = {}
    while running.admin(f"search?k=1&mode=hybrid&q={quote(queries[0])}")["mode"] != "hybrid":
        time.sleep(0.05)
    during = _ranked_ms(running, queries, "hybrid")
    figures["hybrid query during backfill p95, ms"] = percentile(during, 0.95)
    figures["every note reachable by meaning, s"] = running.wait_for_meaning("notes")
    saves = freshness_ms(running, vault, 20, "vector")
    figures["save to found by meaning p95, ms"] = percentile(saves, 0.95)
    chunks = running.admin("status")["chunks"]
    assert isinstance(chunks, dict)
    if chunks["total"] <= (_MOST_QUICK_ONES if quick else _MOST_CHUNKS_WAITED_FOR):
        running.wait_for_meaning("chunks")
        idle = _ranked_ms(running, queries, "hybrid")
        figures["hybrid query p50, ms"] = statistics.median(idle)
        figures["hybrid query p99, ms"] = percentile(idle, 0.99)
        figures["kp_search p50, ms"] = statistics.median(
            timed_ms([lambda query=query: running.call("kp_search", query=query) for query in queries])
        )
        ids = [f"path:{path.relative_to(vault).as_posix()}" for path in notes_of(vault)]
        asked = random.Random(1).sample(ids, min(200, len(ids)))
        figures["kp_related p50, ms"] = statistics.median(
            timed_ms([lambda one=one: running.call("kp_related", id=one) for one in asked])
        )
    return figures


def make_vault(corpora: Path, notes: int, out: Path) -> Path:
    """A generated vault of `notes` notes."""
    command = [sys.executable, str(corpora / "make_vault.py"), "--out", str(out), "--notes", str(notes)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out / "vault"


def unpack_or_make(corpora: Path, name: str, scratch: Path) -> Path:
    """The vault of that name, an archive's or a number of notes to generate, in the scratch folder."""
    if name not in ARCHIVES:
        return make_vault(corpora, int(name), scratch / "made")
    with tarfile.open(corpora / "vaults" / f"{name}.tar.gz") as tar:
        tar.extractall(scratch / name, filter="data")
    return scratch / name


def corpora_of(parser: argparse.ArgumentParser) -> Path:
    """Where the corpora lie."""
    corpora = Path(os.environ.get("VAULT_SIDECAR_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if not corpora.is_dir():
        parser.error("the corpora are not here; VAULT_SIDECAR_CORPORA may name their folder")
    return corpora


def report(figures: list[Figure]) -> bool:
    """Print the table and the summary line."""
    print(f"{'vault':<10} {'notes':>7}  {'figure':<32} {'value':>10} {'budget':>10}")
    for one in figures:
        limit = "" if one.budget is None else f"{one.budget:,.1f}"
        verdict = "" if one.ok else "  MISSED"
        print(f"{one.vault:<10} {one.notes:>7,}  {one.name:<32} {one.value:>10,.2f} {limit:>10}{verdict}")
    missed = sum(not one.ok for one in figures)
    held = sum(one.budget is not None and one.ok for one in figures)
    print(f"speed: {held} budgets held, {missed} missed")
    return missed == 0


def growth(figures: list[Figure]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The figures by unit, each as a curve over the number of notes."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {"milliseconds": {}, "megabytes": {}, "seconds": {}}
    units = {"ms": "milliseconds", "MB": "megabytes", "s": "seconds"}
    for one in sorted(figures, key=lambda figure: figure.notes):
        name, _, unit = one.name.rpartition(", ")
        panels[units[unit]].setdefault(name, []).append((one.notes, one.value))
    return panels


def main(argv: list[str]) -> int:
    """Exit code 1 when a budget is missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench speed", description=__doc__)
    parser.add_argument("--archive", action="append", choices=ARCHIVES, help="archive of the corpora (default: all)")
    parser.add_argument("--notes", action="append", type=int, help="generated vault of this many notes, instead")
    parser.add_argument("--keywords", action="store_true", help="without vectors, which take minutes to make")
    parser.add_argument("--embedder", help="another one than the default; hash makes vectors of any vault in a moment")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--plot", type=Path, help="draw latency, memory and index time against size into this SVG file")
    options = parser.parse_args(argv)
    corpora = corpora_of(parser)
    archives = options.archive or ([] if options.notes else list(ARCHIVES))
    figures: list[Figure] = []
    for name in [*archives, *(str(count) for count in options.notes or ())]:
        scratch = Path(tempfile.mkdtemp(prefix="vault-sidecar-speed-"))
        try:
            vault = unpack_or_make(corpora, name, scratch)
            print(f"measuring {name} …", file=sys.stderr)
            rag = not options.keywords
            figures += measure(name, vault, scratch / "state", rag=rag, embedder=options.embedder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        # after each vault, since the next one may take an hour
        if options.plot:
            options.plot.write_text(picture(growth(figures)), encoding="utf-8")
        if options.json:
            options.json.write_text(json.dumps([{**asdict(one), "ok": one.ok} for one in figures], indent=1))
    return 0 if report(figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
