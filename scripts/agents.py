"""What the first run of an agent costs more than the next ones, and what a run costs beside its provider's time.

A daemon over a small vault, and a provider on this computer that answers at once. The library that speaks the
providers' protocols is imported at the first run; memory is what the daemon itself holds (PSS).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sidecar.bridge.places import state_dir_of
from sidecar.services.agents.gates import Gates
from sidecar.services.agents.roster import Roster
from sidecar.vault.jail import Jail
from tests.e2e.served import Served, serve
from tests.provider import Provider, Say, provider


def main(argv: Sequence[str]) -> int:
    """Measure both protocols, each with a daemon of its own."""
    parser = argparse.ArgumentParser(prog="scripts/bench agents", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="runs after the first (default 20)")
    given = parser.parse_args(argv)
    print(f"{'protocol':<10} {'first':>8} {'next p50':>9} {'next max':>9} {'over':>8} {'memory':>16}")
    for kind in ("openai", "anthropic"):
        with tempfile.TemporaryDirectory() as folder, provider(Say("done")) as played:
            print(_measure(Path(folder), kind, played, given.runs), flush=True)
    return 0


def _measure(folder: Path, kind: str, played: Provider, runs: int) -> str:
    vault, root = folder / "vault", folder / "state"
    (vault / "Agents").mkdir(parents=True)
    (vault / "Agents" / "Scout.md").write_text("---\nmodel: scripted\n---\nBe brief.\n")
    state = state_dir_of(vault, root)
    state.mkdir(parents=True, mode=0o700)
    table = f'[providers.scripted]\nkind = "{kind}"\nbase_url = "{played.url_for(kind)}"\nkey_env = "SCRIPTED_KEY"\n'
    (state / "config.toml").write_text(table)
    jail = Jail(vault)
    Gates(state).set(Roster(jail, "Agents", "Agents/Memory.md", lambda _: False).find("Scout"), True)
    jail.close()
    with serve(vault, root, env={"SCRIPTED_KEY": "k-scripted"}) as served:
        before = _memory_mb(served)
        first = _run_s(served)
        after = _memory_mb(served)
        later = [_run_s(served) for _ in range(runs)]
    middle = statistics.median(later)
    return (
        f"{kind:<10} {first:>6.2f} s {middle * 1000:>6.0f} ms {max(later) * 1000:>6.0f} ms {first - middle:>6.2f} s"
        f" {before:>5.0f} -> {after:>3.0f} MB"
    )


def _run_s(served: Served) -> float:
    begin = time.perf_counter()
    answer = served.call("run_agent", name="Scout", task="Say done.")
    assert answer.text == "done", answer
    return time.perf_counter() - begin


def _memory_mb(served: Served) -> float:
    if not sys.platform.startswith("linux"):
        return float("nan")
    rollup = Path(f"/proc/{served.daemon.pid}/smaps_rollup").read_text()
    [line] = [line for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    os.chdir(Path(__file__).parent.parent)
    sys.exit(main(sys.argv[1:]))
