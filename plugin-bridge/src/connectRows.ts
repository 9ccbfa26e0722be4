/** The rows that set clients up. What holds the token is copied, not shown; the token itself is shown for a moment. */

import { ButtonComponent, type Setting } from "obsidian";

import type { Actions } from "./actions";
import type { Controller } from "./controller";
import type { Feature } from "./session";
import { TAB } from "./text";

export const SHOWN_MS = 30_000;

/** The command for Claude Code, with `<token>` in the token's place. */
export function drawClaude(setting: Setting, controller: Controller, actions: Actions): () => void {
	setting.settingEl.addClass("vault-sidecar-tall");
	const command = setting.infoEl.createEl("pre", { cls: "vault-sidecar-command" });
	let url: string | null = null;
	const draw = (): void => {
		const now = controller.view.phase === "working" ? controller.view.facts.url : null;
		if (now === url && command.getText() !== "") return;
		url = now;
		command.setText(TAB.turnOn);
		command.toggleClass("is-empty", now === null);
		if (now === null) return;
		void controller
			.ask("connect/get", { client: "claude-code" })
			.then(({ forms }) => command.setText(forms[0]?.masked.trim() ?? ""))
			.catch(() => (url = null)); // it ended meanwhile; drawn again with the next start
	};
	onlyWhileWorking(controller, [
		button(setting, TAB.copyCommandWithout, () => actions.copySetup(false)),
		button(setting, TAB.copyCommand, () => actions.copySetup()).setCta(),
	]);
	draw();
	return controller.watch(draw);
}

export function drawOthers(setting: Setting, controller: Controller, actions: Actions): () => void {
	setting.settingEl.addClass("vault-sidecar-tall");
	return onlyWhileWorking(controller, [
		button(setting, TAB.copyStdioJson, () => actions.copyEntry("stdio-json")),
		button(setting, TAB.copyJson, () => actions.copyEntry("mcp-json")),
	]);
}

/** The token while it is shown. It outlives the row, which is drawn anew whenever the tab changes. */
export class ShownToken {
	private token: string | null = null;
	private asked = 0;
	private disarm: () => void = () => undefined;
	private changed: () => void = () => undefined;

	constructor(
		private readonly controller: Controller,
		private readonly actions: Actions,
	) {}

	/** Draw it into the row, now and at each change. Returns what ends that. */
	draw(setting: Setting): () => void {
		setting.settingEl.addClass("vault-sidecar-tall");
		const { controller, actions } = this;
		const show = button(setting, TAB.show, () => (this.token === null ? this.show() : this.hide()));
		const copy = button(setting, TAB.copy, () => actions.copyToken());
		const regenerate = button(setting, TAB.regenerate, () => actions.regenerate()).setDestructive();
		let line: HTMLElement | null = null;
		this.changed = () => {
			line?.remove();
			// a line of its own: beside the description it would squeeze that to a column
			line = this.token === null ? null : setting.infoEl.createEl("pre", { cls: "vault-sidecar-command", text: this.token });
			show.setButtonText(this.token === null ? TAB.show : TAB.hide);
		};
		this.changed();
		return onlyWhileWorking(controller, [show, copy, regenerate]);
	}

	hide(): void {
		this.asked += 1; // a token that is on its way is not shown any more
		this.disarm();
		this.token = null;
		this.changed();
	}

	private show(): Promise<boolean> {
		const asked = ++this.asked;
		return this.actions.tell(async () => {
			const { token } = await this.controller.ask("token/get", {});
			if (asked !== this.asked) return;
			this.token = token;
			this.disarm = this.controller.clock.after(SHOWN_MS, () => this.hide());
			this.changed();
		});
	}
}

export function button(setting: Setting, text: string, run: () => unknown): ButtonComponent {
	return new ButtonComponent(setting.controlEl).setButtonText(text).onClick(run);
}

/** Buttons that need the daemon are dim without it, and say why. */
export function onlyWhileWorking(controller: Controller, buttons: ButtonComponent[], part?: Feature): () => void {
	const draw = (): void => {
		const can = part === undefined ? controller.isWorking : controller.has(part);
		for (const one of buttons) one.setDisabled(!can).setTooltip(can ? "" : TAB.turnOn);
	};
	draw();
	return controller.watch(draw);
}
