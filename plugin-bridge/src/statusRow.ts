/** The Status row: dot, sentence, progress, and the one button that helps. It draws itself anew at each change. */

import { ButtonComponent, ProgressBarComponent, type Setting } from "obsidian";

import type { Actions } from "./actions";
import type { Controller, View } from "./controller";
import type { Problem, Remedy } from "./problems";
import { fromDaemon } from "./problems";
import { percent, REMEDY, sentence, STATUS, workingDetails, workingLine } from "./text";

const REDRAW_MS = 5_000; // "12 s ago" has to move

/** Returns what ends the drawing. */
export function drawStatus(setting: Setting, controller: Controller, actions: Actions): () => void {
	setting.settingEl.addClass("vault-sidecar-status");
	let drawn = "";
	let stop: () => void = () => undefined;
	const draw = (): void => {
		const now = describe(controller.view, controller.clock.now());
		const key = JSON.stringify(now);
		if (key === drawn) return; // a button must not be replaced under the pointer
		drawn = key;
		render(setting, now, actions);
	};
	const tick = (): void => {
		draw();
		stop = controller.clock.after(REDRAW_MS, tick);
	};
	const unwatch = controller.watch(draw);
	tick();
	return () => {
		stop();
		unwatch();
	};
}

interface Described {
	mood: "off" | "busy" | "good" | "warning" | "bad";
	line: string;
	details: string[];
	/** 0 to 100; null where there is no bar. */
	bar: number | null;
	remedy: Remedy | null;
}

function describe(view: View, nowMs: number): Described {
	switch (view.phase) {
		case "stopped":
			return { mood: "off", line: STATUS.stopped, details: [], bar: null, remedy: null };
		case "starting":
			return { mood: "busy", line: view.slow ? STATUS.startingLong : STATUS.starting, details: [], bar: null, remedy: null };
		case "error":
			return { mood: "bad", ...said(view.problem), bar: null, remedy: view.problem.remedy };
		case "working": {
			const { facts } = view;
			const problem = facts.problem === null ? null : fromDaemon(facts.problem);
			const indexing = facts.phase === "indexing";
			const calm = indexing || facts.phase !== "running" ? "busy" : "good";
			return {
				mood: problem === null ? calm : "warning",
				line: workingLine(facts, view.version),
				details: [...workingDetails(facts, nowMs), ...(problem === null ? [] : [said(problem).line, ...said(problem).details])],
				bar: indexing && facts.total > 0 ? percent(facts) : null,
				remedy: problem?.remedy ?? null,
			};
		}
	}
}

function said(problem: Problem): { line: string; details: string[] } {
	return { line: sentence(problem.reason), details: problem.fix === "" ? [] : [sentence(problem.fix)] };
}

function render(setting: Setting, now: Described, actions: Actions): void {
	setting.descEl.empty();
	setting.controlEl.empty();
	const line = setting.descEl.createDiv({ cls: "vault-sidecar-line", attr: { role: "status" } });
	line.createSpan({ cls: `vault-sidecar-dot is-${now.mood}`, attr: { "aria-hidden": "true" } });
	line.createSpan({ text: now.line });
	for (const detail of now.details) setting.descEl.createDiv({ cls: "vault-sidecar-detail", text: detail });
	if (now.bar !== null) {
		new ProgressBarComponent(setting.descEl.createDiv({ cls: "vault-sidecar-bar" })).setValue(now.bar);
	}
	if (now.remedy !== null) {
		const { remedy } = now;
		const button = new ButtonComponent(setting.controlEl).setButtonText(remedyText(remedy)).onClick(() => actions.remedy(remedy));
		if (now.mood === "bad") button.setCta();
	}
}

function remedyText(remedy: Remedy): string {
	switch (remedy.does) {
		case "copy":
			return REMEDY.command;
		case "use-port":
			return REMEDY.port(remedy.port);
		case "retry":
			return REMEDY.retry;
		case "clear-path":
			return REMEDY.clearPath;
		case "diagnostics":
			return REMEDY.diagnostics;
		case "show-skipped":
			return REMEDY.skipped;
	}
}
