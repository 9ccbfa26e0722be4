/** Every sentence that a person reads, in one place. The daemon's own words come on top of these, as they are. */

import type { Agent, Agents, Proposal, Run, State as Facts } from "./protocol";

const number = new Intl.NumberFormat("en");

export function count(of: number, one: string, many = `${one}s`): string {
	return `${number.format(of)} ${of === 1 ? one : many}`;
}

export const TAB = {
	enable: "Enable server",
	enableDesc:
		"Serve this vault to clients such as Claude Code, on this computer only. Runs while this vault is open.",
	status: "Status",
	connect: "Connect",
	claude: "Claude Code",
	claudeDesc: "Copy a command that adds this vault, then run it in a terminal. The command contains the access token.",
	copyCommand: "Copy command",
	copyCommandWithout: "Copy without token",
	others: "Other clients",
	othersDesc: "Copy an entry for the client's settings file: by address and access token, or as a program that it starts.",
	copyJson: "Copy JSON",
	copyStdioJson: "Copy stdio JSON",
	token: "Access token",
	tokenDesc: "Anyone on this computer who has it can read this vault.",
	show: "Show for 30 s",
	hide: "Hide",
	copy: "Copy",
	regenerate: "Regenerate",
	port: "Port",
	portRandom: "Another at each start",
	portDesc: "Clients must be set up again after a change.",
	permissions: "Permissions",
	writes: "Allow writes",
	writesDesc: "Adds the write tool: clients can create, overwrite and append to notes. Off: they can only read.",
	library: "Library tools",
	libraryDesc: "Ranked search, related and recent notes, digests, and proposals that you review.",
	databases: "Document database tools",
	databasesDesc: "Search in the folders of documents that you have registered.",
	knowledge: "Knowledge tools",
	knowledgeDesc: "Skills and knowledge units that clients look up, contribute and judge.",
	proposals: "Proposed changes",
	proposalsDesc: "Clients can propose changes to notes. Nothing changes until you apply a proposal.",
	review: "Review",
	agents: "Agents",
	agentsDesc: "Your named agents, which of them clients may run, and what they have run.",
	folder: "Agents folder",
	folderDesc: "Every note directly in this folder is an agent. Clients can't change these notes.",
	noAgents: "No agents yet. An agent is a note in the agents folder.",
	remote: "Remote invocation",
	provider: "Provider",
	providerDesc: "Who answers for agents that name nobody.",
	providerNone: "Not set",
	address: "Address",
	addressDesc: "Leave it empty for the provider's own. Otherwise https, or http on this computer.",
	key: "API key",
	keyDesc: "Runs are billed to this key. It stays in the secret storage of the app.",
	runs: "Recent remote runs",
	noRuns: "No agent has been run by a client yet.",
	unnamed: "No name",
	refresh: "Refresh",
	cancel: "Cancel",
	advanced: "Advanced",
	program: "Sidecar program",
	programDesc: "The program vault-sidecar on this computer. It is looked for where Python installers put it.",
	programFound: "Found automatically",
	rebuild: "Rebuild index",
	rebuildDesc: "Reads every note again. Clients stay connected.",
	rebuildNow: "Rebuild",
	diagnostics: "Copy diagnostics",
	diagnosticsDesc: "Versions, system, state and the last lines of the log. Access token and keys are never in it.",
	log: "Open log",
	logDesc: "What the sidecar has said since this vault was opened.",
	statusBar: "Show in status bar",
	statusBarDesc: "A short state at the bottom of the window. A click on it opens this page.",
	turnOn: "Available while the server runs.",
} as const;

export const COMMAND = {
	start: "Start server",
	stop: "Stop server",
	restart: "Restart server",
	setup: "Copy setup for Claude Code",
	regenerate: "Regenerate access token",
	open: "Open server status",
	review: "Review proposed changes",
	rebuild: "Rebuild index",
	cancel: "Cancel running agents",
	diagnostics: "Copy diagnostics",
} as const;

export const STATUS = {
	stopped: "Stopped.",
	starting: "Starting...",
	startingLong: "Still starting. The first start can take a minute.",
} as const;

export const NOTICE = {
	copiedCommand: "Command copied. It contains the access token: paste it into a terminal and nowhere else.",
	copiedWithout: "Command copied. It takes the access token from the sidecar when you run it.",
	copiedEntry: "Entry copied. It contains the access token.",
	copiedStdio: "Entry copied. It contains no access token.",
	copiedToken: "Access token copied.",
	copied: "Copied.",
	rotated: "New access token made. Every client needs the new one: copy the setup command again.",
	rebuilding: "The index is being rebuilt.",
	noRuns: "No agent is running.",
	clipboard: "The clipboard can't be written to.",
	firstRun: "Turn the server on in the settings of Vault Sidecar.",
	noKey: "The chosen secret is empty or gone. Choose another one under Agents.",
} as const;

export const DIALOG = {
	regenerate: "Regenerate access token?",
	regenerateText: "Every client that uses the current token stops working at once.",
	regenerateNow: "Regenerate",
	cancel: "Cancel",
	proposals: "Proposed changes",
	noProposals: "Nothing waits for review.",
	back: "Back",
	apply: "Apply",
	reject: "Reject",
	reason: "Why do you reject it? This is optional.",
	applicable: "This can be applied: the notes are as the proposal expects them.",
	cut: "This proposal is too long to be shown whole. Look at it in a terminal before you apply it.",
	skipped: "Notes that could not be indexed",
	log: "Log of the sidecar",
	noLog: "The log is empty.",
	close: "Close",
} as const;

export const FIX = {
	install: "Install it, then turn the server on again.",
	sandbox: "Start the sidecar in a terminal, or install Obsidian from its website.",
	path: "Correct the path under Advanced, or clear it to let the plugin look for the program.",
	upgrade: "Upgrade it, then try again.",
	updatePlugin: "Update the plugin.",
	updateSidecar: "Update the sidecar.",
	report: "If this goes on, copy the diagnostics and report it.",
	tryAgain: "Try again.",
	takeBack: "Go on in that window, or take the server back here.",
} as const;

export const REMEDY = {
	command: "Copy command",
	retry: "Try again",
	clearPath: "Clear path",
	diagnostics: "Copy diagnostics",
	skipped: "Show them",
	port: (port: number): string => `Use port ${port}`,
} as const;

export const REASON = {
	notFound: "The sidecar program is not installed.",
	sandbox: (kind: string): string =>
		`Obsidian runs as a ${kind} package, which can't see programs in your home folder.`,
	noFile: (path: string): string => `No program at ${short(path)}.`,
	folder: (path: string): string => `${short(path)} is a folder.`,
	blocked: (path: string): string => `${short(path)} is not allowed to run.`,
	script: (path: string): string => `${short(path)} is a script (.cmd or .bat): choose the .exe beside it.`,
	relative: (path: string): string => `${short(path)} is not a whole path.`,
	tooOld: (is: string, needed: string): string => `The sidecar is ${short(is)}; this plugin needs ${needed} or newer.`,
	protocol: (is: string, needed: number): string => `The sidecar speaks protocol ${short(is)}; this plugin needs ${needed}.`,
	noHello: "The program started but is not the sidecar (no answer in 15 s).",
	noStart: "The sidecar started but did not get ready in a minute.",
	exited: (how: string, line: string): string =>
		line === "" ? `The sidecar stopped by itself (${how}).` : `The sidecar stopped by itself (${how}): ${sentence(short(line, 90))}`,
	blockedBySystem: (code: string): string => `The system refused to start the program (${short(code, 20)}).`,
	alreadyRunning: "Another sidecar already serves this vault.",
	takenOver: "Another window of this vault has taken the server over.",
	noFolder: "This vault has no folder on this computer that could be served.",
} as const;

export const PORT_RULE = "Use a whole number from 1024 to 65535.";

export function exitWords(code: number | null, signal: string | null): string {
	return code === null ? `signal ${signal ?? "unknown"}` : `code ${code}`;
}

/** The line of the Status row while the daemon works. */
export function workingLine(facts: Facts, version: string): string {
	if (facts.phase === "starting") return STATUS.starting;
	if (facts.phase === "indexing") {
		if (facts.total === 0) return "Indexing. Clients can connect; search gets complete as this goes on.";
		const of = `${number.format(facts.done)} of ${count(facts.total, "note")}`;
		return `Indexing ${percent(facts)}% (${of}). Clients can connect; search gets complete as this goes on.`;
	}
	return `Running on 127.0.0.1:${facts.port ?? "?"} · ${count(facts.indexed, "note")} indexed · sidecar ${version}.`;
}

/** What else is worth knowing then, a sentence each. */
export function workingDetails(facts: Facts, nowMs: number): string[] {
	const details: string[] = [];
	if (facts.phase === "running" && !facts.settled && facts.byMeaning < facts.indexed) {
		details.push(`Search by meaning knows ${number.format(facts.byMeaning)} of ${count(facts.indexed, "note")} so far.`);
	}
	if (facts.clients > 0) details.push(`${count(facts.clients, "client")} so far.`);
	if (facts.refused !== null) {
		const seconds = Math.round((nowMs - Date.parse(facts.refused.at ?? "")) / 1000);
		if (seconds < RECENT_S) details.push(`A client was refused ${ago(seconds)}: ${refusedWhy(facts.refused.reason)}.`);
	}
	return details;
}

function refusedWhy(code: string | null): string {
	if (code === null) return "it did not say enough";
	return REFUSED[code] ?? short(code.replaceAll("_", " "), 60);
}

/** The daemon's words of one word for the common cases. */
const REFUSED: Record<string, string> = {
	no_token: "it sent no token",
	wrong_token: "its token is wrong or old",
	forbidden_host: "it used another host name than 127.0.0.1",
	forbidden_origin: "it is a web page",
};

const RECENT_S = 600; // an older refusal is no longer what a person is looking at

/** Done share of the index, in whole percent, 100 only when all is done. */
export function percent(facts: Facts): number {
	return facts.total === 0 ? 0 : Math.min(100, Math.floor((facts.done / facts.total) * 100));
}

export function barOff(): string {
	return "Sidecar off";
}

export function barWorking(facts: Facts): string {
	if (facts.phase === "indexing") return `Sidecar indexing ${percent(facts)}%`;
	if (facts.phase === "running") return `Sidecar :${facts.port ?? "?"}`;
	return barStarting();
}

export function barStarting(): string {
	return "Sidecar starting...";
}

export function barError(): string {
	return "Sidecar error";
}

export function agentsValue(agents: Agents): string {
	if (agents.agents.length === 0) return "None";
	const remote = agents.agents.filter((agent) => agent.remote).length;
	return `${remote} of ${agents.agents.length} can be run by clients`;
}

export function agentName(agent: Agent): string {
	return agent.emoji === null ? agent.name : `${agent.emoji} ${agent.name}`;
}

export function agentDesc(agent: Agent): string {
	return [short(agent.description, 140), agent.model].filter(Boolean).join(" · ");
}

/** What is wrong or odd with an agent, a sentence each. */
export function agentProblems(agent: Agent): string[] {
	return [
		...(agent.problem === null ? [] : [capital(sentence(agent.problem))]),
		...(agent.remote && agent.changed ? ["Changed since you allowed it."] : []),
		...agent.hints.map((hint) => capital(sentence(hint))),
	];
}

function capital(text: string): string {
	return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function noKey(provider: string): string {
	return `There is no key for ${short(provider, 40)} yet.`;
}

export function folderMissing(path: string): string {
	return `There is no folder ${short(path)} in this vault.`;
}

/** The line of a run in the list: outcome, time, tokens. */
export function runDesc(run: Run): string {
	const tokens = Object.values(run.usage ?? {}).reduce((sum, of) => sum + of, 0);
	return [
		OUTCOME[run.outcome],
		run.duration_ms === null ? null : `${number.format(Math.round(run.duration_ms / 1000))} s`,
		tokens > 0 ? count(tokens, "token") : null,
		run.client,
		run.started_at.replace("T", " ").replace(/:\d\dZ$/, " UTC"),
	]
		.filter(Boolean)
		.join(" · ");
}

const OUTCOME: Record<Run["outcome"], string> = {
	running: "Running",
	done: "Done",
	failed: "Failed",
	refused: "Refused",
	busy: "Turned away, too many at once",
	cancelled: "Cancelled",
	timeout: "Took too long",
	turn_limit: "Too many turns",
	interrupted: "Interrupted",
};

/** Said once when a client's run has ended. */
export function runNotice(run: Run): string {
	const who = `${short(run.client ?? "A client", 40)} ran ${short(run.agent ?? "an agent", 64)}`;
	return run.outcome === "done" ? `${who}: done.` : `${who}: ${OUTCOME[run.outcome].toLowerCase()}.`;
}

export function proposalsWaiting(open: number): string {
	return open === 0 ? TAB.proposalsDesc : `${count(open, "proposal waits", "proposals wait")} for your review.`;
}

export function proposalDesc(proposal: Proposal): string {
	const files = count(proposal.files.length, "file");
	return `${proposal.created.slice(0, 10)} · ${short(proposal.author, 60)} · ${files}`;
}

export function unreadableProposal(name: string, reason: string): string {
	return `${short(name, 60)} can't be read: ${sentence(short(reason, 80))}`;
}

export function notApplicable(problem: string): string {
	return `This can't be applied now: ${sentence(problem)}`;
}

export function applied(title: string): string {
	return `Applied: ${short(title, 100)}.`;
}

export function rejected(title: string): string {
	return `Rejected: ${short(title, 100)}.`;
}

/** An apply that the daemon refused: the proposal is settled all the same. */
export function notApplied(reason: string): string {
	return `Not applied, and marked as rejected: ${sentence(short(reason, 100))}`;
}

export function skippedProblem(skipped: number, total: number): string {
	return `Some notes could not be indexed: ${number.format(skipped)} of ${number.format(total)}. Search works for the rest.`;
}

export function programInUse(program: string, version: string | null): string {
	return version === null ? `In use: ${program}` : `In use: ${program}, version ${version}`;
}

export function more(of: number): string {
	return `And ${number.format(of)} more.`;
}

export function cancelled(runs: number): string {
	return `${count(runs, "run")} cancelled.`;
}

export function ago(seconds: number): string {
	if (seconds < 1) return "just now";
	return seconds < 60 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}

/** With a full stop at the end, whatever it had. */
export function sentence(text: string): string {
	const bare = text.trim();
	return /[.!?]$/.test(bare) ? bare : `${bare}.`;
}

/** Text from outside as it is, but that letters which a page obeys without showing them are shown. */
export function visible(text: string): string {
	// eslint-disable-next-line no-control-regex -- they are what is looked for
	return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (sign) => {
		const code = sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
		return `⟨U+${code}⟩`;
	});
}

/** Text from outside, on one line and not too long; the middle goes, as a path is known by its ends. */
export function short(text: string, most = 100): string {
	// eslint-disable-next-line no-control-regex -- what a terminal or a page would obey is what is taken out
	const flat = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g, " ").trim();
	if (flat.length <= most) return flat;
	const half = Math.floor((most - 1) / 2);
	return `${flat.slice(0, half)}…${flat.slice(-half)}`;
}
