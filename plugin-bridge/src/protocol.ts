/** The pipe to the daemon, as the plugin names it. The shapes are generated from the schema that the daemon owns. */

import type { Events, Methods, WireErrorData } from "./protocol.types";

export type {
	Events,
	Methods,
	WireAgent as Agent,
	WireAgents as Agents,
	WireErrorData as ErrorData,
	WireForm as Form,
	WireProposal as Proposal,
	WireRun as Run,
	WireSettings as Settings,
	WireSettingsGiven as SettingsGiven,
} from "./protocol.types";

/** The revision that this plugin speaks; the daemon must speak the same. */
export const PROTOCOL = 1;

/** The oldest daemon that this plugin can work with. */
export const MIN_SIDECAR = "0.1.0";

export type Method = keyof Methods;
export type Params<M extends Method> = Methods[M]["params"];
export type Result<M extends Method> = Methods[M]["result"];
export type EventName = keyof Events;
export type State = Events["state"];

/** The daemon refused a request; its own words say why. */
export class Refused extends Error {
	constructor(readonly data: WireErrorData) {
		super(data.reason);
	}
}

/** No answer came: the child ended, was closed, or took too long. */
export class NoAnswer extends Error {
	constructor(readonly why: "ended" | "late") {
		super(why === "late" ? "The sidecar did not answer in time." : "The sidecar is not running.");
	}
}

/** Is version `one` older than `other`? Numbers are compared; what follows a hyphen or plus does not count. */
export function isOlder(one: string, other: string): boolean {
	const numbers = (version: string): number[] => (version.split(/[-+]/)[0] ?? "").split(".").map((part) => parseInt(part, 10) || 0);
	const [left, right] = [numbers(one), numbers(other)];
	for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
		const difference = (left[at] ?? 0) - (right[at] ?? 0);
		if (difference !== 0) return difference < 0;
	}
	return false;
}
