/** Agents, their runs, and proposals. */

import type { Agent, Agents, Proposal, Run } from "../protocol";
import { TAB } from "./labels";
import { capital, count, number, sentence, short } from "./words";

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

/** The line of a run in the list: outcome, time, tokens. */
export function runDesc(run: Run): string {
	const tokens = Object.values(run.usage ?? {}).reduce((sum, of) => sum + of, 0);
	return [
		OUTCOME[run.outcome],
		run.duration_ms === null ? null : lasted(run.duration_ms),
		tokens > 0 ? count(tokens, "token") : null,
		run.client === null ? null : short(run.client, 40),
		run.started_at.replace("T", " ").replace(/:\d\dZ$/, " UTC"),
	]
		.filter(Boolean)
		.join(" · ");
}

function lasted(ms: number): string {
	return ms < 1000 ? "under 1 s" : `${number.format(Math.round(ms / 1000))} s`;
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

export function cancelled(runs: number): string {
	return `${count(runs, "run")} cancelled.`;
}
