"""The official conformance suites against our transport, and against the surfaces of the product."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from mcp.server.subscriptions import PromptsListChanged

from sidecar.protocol.http import McpPath
from sidecar.protocol.sessions import Sessions
from tests.conformance import everything
from tests.conformance.conftest import FIGURES
from tests.conformance.proxy import proxy
from tests.conformance.suites import NEW, OLD, Outcome, run
from tests.e2e.served import Served, serve
from tests.lab import Running, running

Outcomes = dict[tuple[str, str, str], Outcome]
"""By suite, revision and path."""

RUNS = [(OLD, "2025-11-25"), (NEW, "2025-11-25"), (NEW, "2026-07-28")]
SURFACES = ["/mcp", "/mcp/notes"]
EXPECTED = yaml.safe_load((Path(__file__).parent / "expected-failures.yaml").read_text())["server"]

# a question to a client whose answer has nowhere to land
NEED_A_SESSION = [
    "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "tools-call-elicitation", "tools-call-sampling",
]  # fmt: skip
# what a server can pass without tools, prompts or resources of the suites' own names
FIXTURE_FREE = {
    "2025-11-25": ["dns-rebinding-protection", "ping", "server-initialize", "tools-list"],
    "2026-07-28": [
        "dns-rebinding-protection", "http-header-validation", "input-required-result-unsupported-methods",
        "server-sse-multiple-streams", "server-stateless", "tools-list",
    ],
}  # fmt: skip
# and the checks of those scenarios that need them all the same
NEED_FIXTURES = {
    "sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-missing-capability-http-400",
    "sep-2575-server-no-log-without-loglevel", "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
}  # fmt: skip


@asynccontextmanager
async def everything_served() -> AsyncGenerator[Running]:
    """The server with every feature behind our transport: at /sessions with sessions, at /stateless without."""
    paths: dict[str, McpPath] = {}

    async def tools_changed() -> None:
        for path in paths.values():
            await path.tools_changed()

    async def prompts_changed() -> None:
        for path in paths.values():
            await path._bus.publish(PromptsListChanged())  # no surface has prompts, so there is no public way

    paths["/sessions"] = McpPath(everything.build(tools_changed, prompts_changed), Sessions())
    paths["/stateless"] = McpPath(everything.build(tools_changed, prompts_changed))
    async with running(more=paths) as lab:
        yield lab


async def run_all(served: Served, folder: Path) -> Outcomes:
    """A few runs at once: they wait more than they work, and not long for a server that has no processor."""
    turn = asyncio.Semaphore(3)

    async def run_in_turn(suite: str, revision: str, url: str, place: Path) -> Outcome:
        async with turn:
            return await run(suite, revision, url, place)

    async with (
        everything_served() as lab,
        proxy(lab.port, lab.token) as ours,
        proxy(served.daemon.port, served.daemon.token) as products,
    ):
        wanted = {(suite, revision, "/sessions"): ours for suite, revision in RUNS}
        wanted |= {(NEW, revision, "/stateless"): ours for revision in FIXTURE_FREE}
        wanted |= {(NEW, revision, path): products for revision in FIXTURE_FREE for path in SURFACES}
        runs = [
            run_in_turn(suite, revision, f"http://127.0.0.1:{port}{path}", folder / str(number))
            for number, ((suite, revision, path), port) in enumerate(wanted.items())
        ]
        return dict(zip(wanted, await asyncio.gather(*runs), strict=True))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Outcomes]:
    scratch = tmp_path_factory.mktemp("conformance")
    (scratch / "vault").mkdir()
    (scratch / "vault" / "Note.md").write_text("one note")
    with serve(scratch / "vault", scratch / "state") as served:
        found = asyncio.run(run_all(served, scratch))
    pytestconfig.stash[FIGURES] += [one.figures(EXPECTED) for (_, _, path), one in found.items() if path == "/sessions"]
    yield found


@pytest.mark.parametrize(("suite", "revision"), RUNS)
def test_the_transport_conforms(outcomes: Outcomes, suite: str, revision: str) -> None:
    outcome = outcomes[suite, revision, "/sessions"]
    assert len(outcome.passed) >= 30
    assert sorted(outcome.failed) == (EXPECTED if revision == "2026-07-28" else []), outcome.output
    assert not outcome.warned, outcome.output
    assert outcome.exit_code == 0  # the suite's own opinion; it counts no extension


def test_nothing_but_the_tasks_extension_is_expected_to_fail() -> None:
    assert EXPECTED and not [name for name in EXPECTED if not name.startswith("tasks-")]


@pytest.mark.parametrize("revision", FIXTURE_FREE)
def test_without_sessions_only_questions_to_the_client_are_missing(outcomes: Outcomes, revision: str) -> None:
    outcome = outcomes[NEW, revision, "/stateless"]
    assert sorted(outcome.failed) == (EXPECTED if revision == "2026-07-28" else NEED_A_SESSION), outcome.output


@pytest.mark.parametrize("path", SURFACES)
@pytest.mark.parametrize("revision", FIXTURE_FREE)
def test_the_surfaces_conform(outcomes: Outcomes, revision: str, path: str) -> None:
    outcome = outcomes[NEW, revision, path]
    for scenario in FIXTURE_FREE[revision]:
        assert outcome.passed[scenario]
        not_passed = outcome.failed.get(scenario, []) + outcome.warned.get(scenario, [])
        assert set(not_passed) <= NEED_FIXTURES, outcome.output
    assert not [ids for ids in outcome.failed.values() if "wire-schema-valid" in ids], outcome.output


async def test_without_the_token_the_suites_get_nowhere(tmp_path: Path) -> None:
    """The control: the suites see what the server does, and they reach it through its guards."""
    async with everything_served() as lab:
        url = f"http://127.0.0.1:{lab.port}/sessions"
        outcome = await run(NEW, "2025-11-25", url, tmp_path, "--scenario", "ping")
        assert {reason for reason, _, _ in lab.refused} == {"no_token"}
    assert (outcome.exit_code, list(outcome.failed)) == (1, ["ping"])
