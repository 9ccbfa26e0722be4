/** The commands of the palette; each is offered only while it can do something. */

import type { Command } from "obsidian";

import type { Actions } from "./actions";
import type { Controller } from "./controller";
import { COMMAND } from "./text";

/** `review` opens the proposals. */
export function commands(controller: Controller, actions: Actions, review: () => void): Command[] {
	const off = (): boolean => controller.view.phase === "stopped";
	const on = (): boolean => !off();
	const working = (): boolean => controller.isWorking;
	const always = (): boolean => true;
	return [
		offered("start", COMMAND.start, off, () => void controller.setEnabled(true)),
		offered("stop", COMMAND.stop, on, () => void controller.setEnabled(false)),
		offered("restart", COMMAND.restart, on, () => void controller.restart()),
		offered("copy-setup", COMMAND.setup, working, () => void actions.copySetup()),
		offered("regenerate-token", COMMAND.regenerate, working, () => actions.regenerate()),
		offered("open-status", COMMAND.open, always, () => actions.openTab()),
		offered("review-proposals", COMMAND.review, () => working() && controller.has("proposals"), review),
		offered("rebuild-index", COMMAND.rebuild, working, () => void actions.rebuild()),
		offered("cancel-runs", COMMAND.cancel, () => working() && controller.has("agents"), () => void actions.cancelRuns()),
		offered("copy-diagnostics", COMMAND.diagnostics, always, () => void actions.copyDiagnostics()),
	];
}

function offered(id: string, name: string, when: () => boolean, run: () => void): Command {
	return {
		id,
		name,
		checkCallback: (checking) => {
			if (!when()) return false;
			if (!checking) run();
			return true;
		},
	};
}
