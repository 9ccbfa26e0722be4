import { describe, expect, it } from "vitest";

import { noFolder, noHello, noStart, notLocated, exited, fromDaemon, unfit, type Problem } from "../../src/problems";
import type { Agent, ErrorData, Run, State } from "../../src/protocol";
import * as text from "../../src/text";

const FACTS: State = {
	phase: "running",
	port: 24783,
	url: "http://127.0.0.1:24783/mcp",
	done: 1000,
	total: 1000,
	notes: 1000,
	indexed: 1000,
	byMeaning: 1000,
	settled: true,
	clients: 0,
	refused: null,
	problem: null,
};

const NOW = Date.parse("2026-11-30T11:12:12Z");

const LONG = `/home/me/${"a very long folder/".repeat(30)}vault-sidecar`;

const DATA: ErrorData = { code: "disk", reason: "The disk is full", fix: "" };

const PROBLEMS: Problem[] = [
	noFolder(),
	noHello(),
	noStart(),
	notLocated({ found: false, why: "nothing", sandbox: null }, "/v"),
	notLocated({ found: false, why: "nothing", sandbox: "Flatpak" }, "/home/me/it's mine"),
	...(["no-file", "folder", "blocked", "script", "relative"] as const).map((why) => notLocated({ found: false, why, path: LONG }, "/v")),
	exited({ code: 1, signal: null, failed: null, lastLine: "" }),
	exited({ code: null, signal: "SIGKILL", failed: null, lastLine: "x".repeat(900) }),
	exited({ code: 3, signal: null, failed: null, lastLine: "" }),
	exited({ code: null, signal: null, failed: "EACCES", lastLine: "" }),
	fromDaemon(DATA),
	...[unfit("0.0.1", 1), unfit("0.1.0", 7), unfit("0.1.0", 0)].filter((problem) => problem !== null),
];

function sentencesOf(value: unknown): string[] {
	if (typeof value === "string") return [value];
	return typeof value === "object" && value !== null ? Object.values(value).flatMap(sentencesOf) : [];
}

describe("every sentence", () => {
	const states: State[] = [
		FACTS,
		{ ...FACTS, phase: "starting", port: null, url: null },
		{ ...FACTS, phase: "indexing", done: 0, total: 0 },
		{ ...FACTS, phase: "indexing", done: 430 },
		{ ...FACTS, settled: false, byMeaning: 620, clients: 2, refused: { at: "2026-11-30T11:12:00Z", agent: "x", reason: "no_token", status: 401 } },
		{ ...FACTS, refused: { at: "2026-11-30T11:02:30Z", agent: "x", reason: "some_new_reason", status: 400 } },
		{ ...FACTS, indexed: 1, port: null },
	];
	const sentences = [
		...states.map((facts) => text.workingLine(facts, "0.1.0")),
		...states.flatMap((facts) => text.workingDetails(facts, NOW)),
		...PROBLEMS.map((problem) => text.sentence(problem.reason)),
		...PROBLEMS.map((problem) => problem.fix).filter((fix) => fix !== ""),
		...sentencesOf(text.STATUS),
		...sentencesOf(text.NOTICE),
		...sentencesOf(text.FIX),
		text.PORT_RULE,
		text.noKey("anthropic"),
		text.folderMissing(LONG),
		text.proposalsWaiting(0),
		text.proposalsWaiting(1),
		text.proposalsWaiting(20),
		text.applied("A title".repeat(40)),
		text.rejected("A title"),
		text.notApplied("the note has changed since"),
		text.unreadableProposal("01KB", "no proposal.json"),
		text.more(3),
		text.cancelled(1),
	];

	it.each(sentences)("is whole and short: %s", (sentence) => {
		expect(sentence).not.toMatch(/undefined|null|NaN|\[object/);
		expect(sentence).toMatch(/[.?]$/);
		expect(sentence.length).toBeLessThanOrEqual(160);
	});

	it("of the tab is whole too", () => {
		for (const [name, sentence] of Object.entries(text.TAB)) if (name.endsWith("Desc")) expect(sentence).toMatch(/\.$/);
	});
});

describe("the words of a state", () => {
	it("are those of the design", () => {
		expect(text.workingLine({ ...FACTS, phase: "indexing", done: 430 }, "0.1.0")).toBe(
			"Indexing 43% (430 of 1,000 notes). Clients can connect; search gets complete as this goes on.",
		);
		expect(text.workingLine(FACTS, "0.1.0")).toBe("Running on 127.0.0.1:24783 · 1,000 notes indexed · sidecar 0.1.0.");
		const refused = { at: "2026-11-30T11:12:00Z", agent: "x", reason: "no_token", status: 401 };
		expect(text.workingDetails({ ...FACTS, clients: 2, refused }, NOW)).toEqual([
			"2 clients so far.",
			"A client was refused 12 s ago: it sent no token.",
		]);
		expect(text.workingDetails({ ...FACTS, refused: { ...refused, at: "2026-11-30T09:12:00Z" } }, NOW)).toEqual([]);
	});

	it("say 100% only when all is done", () => {
		expect(text.percent({ ...FACTS, done: 9_999, total: 10_000 })).toBe(99);
		expect(text.percent({ ...FACTS, done: 10_001, total: 10_000 })).toBe(100);
	});

	it("fit the status bar", () => {
		expect(text.barWorking(FACTS)).toBe("Sidecar :24783");
		expect(text.barWorking({ ...FACTS, phase: "indexing", done: 430 })).toBe("Sidecar indexing 43%");
		expect(text.barWorking({ ...FACTS, phase: "starting" })).toBe("Sidecar starting...");
	});
});

describe("agents and runs", () => {
	const agent: Agent = {
		name: "Scout",
		emoji: "🔭",
		description: "Finds notes.",
		model: "sonnet",
		provider: null,
		path: "Agents/Scout.md",
		remote: true,
		changed: true,
		problem: null,
		hints: ["Bash is no tool here"],
	};
	const run: Run = {
		id: "1",
		agent: "Scout",
		task: "Find.",
		client: null,
		caller: "local",
		way: "mcp",
		outcome: "done",
		reason: null,
		provider: null,
		model: null,
		started_at: "2026-11-30T11:12:00Z",
		ended_at: null,
		duration_ms: null,
		turns: null,
		tools: null,
		usage: null,
		chars: null,
	};

	it("are described with what is known", () => {
		expect(text.agentName(agent)).toBe("🔭 Scout");
		expect(text.agentName({ ...agent, emoji: null })).toBe("Scout");
		expect(text.agentDesc({ ...agent, model: null })).toBe("Finds notes.");
		expect(text.agentProblems(agent)).toEqual(["Changed since you allowed it.", "Bash is no tool here."]);
		expect(text.agentProblems({ ...agent, problem: "no persona", changed: false, hints: [] })).toEqual(["No persona."]);
		expect(text.agentsValue({ folder: "Agents", agents: [], provider: null })).toBe("None");
		expect(text.runDesc(run)).toBe("Done · 2026-11-30 11:12 UTC");
		expect(text.runDesc({ ...run, duration_ms: 300, client: "x\u202ey" })).toBe("Done · under 1 s · x y · 2026-11-30 11:12 UTC");
		expect(text.runNotice(run)).toBe("A client ran Scout: done.");
		expect(text.runNotice({ ...run, outcome: "timeout", client: "cursor" })).toBe("cursor ran Scout: took too long.");
		expect(text.runNotice({ ...run, agent: null })).toBe("A client ran an agent: done.");
	});
});

describe("text from outside", () => {
	it("stays on one line, loses its control letters and keeps its ends", () => {
		expect(text.short("a\nb\u202ec\u0007d")).toBe("a b c d");
		expect(text.short("/home/".concat("x".repeat(200), "/end"), 21)).toBe("/home/xxxx…xxxxxx/end");
	});

	it("shows what would not show", () => {
		expect(text.visible("a\u202eb\u200bc\td\r")).toBe("a⟨U+202E⟩b⟨U+200B⟩c\td⟨U+000D⟩");
		// words for a machine that no page shows: tags, a filler, a letter mark, a style beyond those of emoji
		expect(text.visible("a\u{e0041}b\u3164c\u061cd\u{e0101}")).toBe("a⟨U+E0041⟩b⟨U+3164⟩c⟨U+061C⟩d⟨U+E0101⟩");
	});

	it("leaves emoji and scripts whole that need joiners", () => {
		for (const whole of ["👩‍💻 ❤️", "می‌خواهم", "笔记 é"]) expect([text.visible(whole), text.short(whole)]).toEqual([whole, whole]);
	});
});
