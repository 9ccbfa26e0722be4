/** How the daemon is: the Status row and the status bar. */

import type { State as Facts } from "../protocol";
import { count, number, short } from "./words";

export const STATUS = {
	stopped: "Stopped.",
	starting: "Starting...",
	startingLong: "Still starting. The first start can take a minute.",
} as const;

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

export function programInUse(program: string, version: string | null): string {
	return version === null ? `In use: ${program}` : `In use: ${program}, version ${version}`;
}

export function ago(seconds: number): string {
	if (seconds < 1) return "just now";
	return seconds < 60 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}
