/** What a person sends along with a question. It must not hold a secret, nor who they are. */

import { apiVersion, Platform } from "obsidian";

import type { Controller } from "./controller";

/** Tokens of the daemon, and keys of providers, as they look. */
const SECRETS = /\b(vs[a-z]_[\w-]{16,}|sk-[\w-]{8,}|Bearer\s+\S+)/g;

export function diagnostics(controller: Controller): string {
	const { view, settings } = controller;
	const state = view.phase === "working" ? view.facts.phase : view.phase;
	const lines = [
		`plugin ${controller.pluginVersion}, sidecar ${controller.sidecar ?? "not running"}, Obsidian ${apiVersion}`,
		`system ${system()}`,
		`state ${state}${view.phase === "error" ? ` (${view.problem.code}): ${view.problem.reason}` : ""}`,
		`program ${controller.program ?? "not found"}`,
	];
	if (view.phase === "working") {
		const { notes, indexed, byMeaning, done, total, clients, refused, problem } = view.facts;
		lines.push(`notes ${notes}, by words ${indexed}, by meaning ${byMeaning}, this pass ${done} of ${total}`);
		lines.push(`clients ${clients}, last refused ${refused === null ? "none" : `${refused.reason} at ${refused.at}`}`);
		if (problem !== null) lines.push(`problem (${problem.code}): ${problem.reason}`);
	}
	const surfaces = Object.entries(settings.surfaces).filter(([, on]) => on);
	lines.push(`port ${settings.port ?? "not chosen"}, writes ${settings.allowWrites ? "on" : "off"}`);
	lines.push(`surfaces ${surfaces.map(([name]) => name).join(", ")}`);
	return cleaned([...lines, "", "log:", ...controller.log].join("\n"), controller.home);
}

/** Without secrets, and without the name of the person's home folder. */
export function cleaned(text: string, home: string): string {
	const anonymous = home.length > 1 ? text.replaceAll(home, "~") : text;
	return anonymous.replace(SECRETS, "<secret>");
}

function system(): string {
	if (Platform.isMacOS) return "macOS";
	return Platform.isWin ? "Windows" : "Linux";
}
