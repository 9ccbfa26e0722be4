/** What commands, buttons and rows do: ask the daemon, then say what came of it. */

import { ConfirmationModal, Notice, type App } from "obsidian";

import type { Controller } from "./controller";
import { diagnostics } from "./diagnostics";
import type { Remedy } from "./problems";
import { NoAnswer, Refused, type Form, type SettingsGiven } from "./protocol";
import { cancelled, DIALOG, NOTICE, sentence } from "./text";
import { LogModal, SkippedModal } from "./listModals";

export class Actions {
	/** Called when a new token was made here. */
	onRotated: () => void = () => undefined;

	constructor(
		private readonly app: App,
		private readonly controller: Controller,
		/** Opens the plugin's settings tab. */
		readonly openTab: () => void,
	) {}

	/** Run `work`; what the daemon refuses is shown. Returns whether it went well. */
	async tell(work: () => Promise<unknown>): Promise<boolean> {
		try {
			await work();
			return true;
		} catch (error) {
			if (!(error instanceof Refused) && !(error instanceof NoAnswer)) throw error;
			const fix = error instanceof Refused ? error.data.fix : "";
			new Notice([sentence(error.message), fix].join(" ").trim());
			return false;
		}
	}

	/** Change settings; returns what stands in the way, null if nothing does. */
	async tryChange(change: SettingsGiven): Promise<string | null> {
		try {
			await this.controller.change(change);
			return null;
		} catch (error) {
			if (!(error instanceof Refused) && !(error instanceof NoAnswer)) throw error;
			return sentence(error.message);
		}
	}

	async copy(text: string, said: string): Promise<void> {
		try {
			await navigator.clipboard.writeText(text);
			new Notice(said);
		} catch {
			new Notice(NOTICE.clipboard);
		}
	}

	/** The command for Claude Code: with the token, or the form that takes it from the daemon. */
	copySetup(withToken = true): Promise<boolean> {
		return this.tell(async () => {
			const { forms } = await this.controller.ask("connect/get", { client: "claude-code" });
			const form: Form | undefined = withToken ? forms[0] : forms.find((one) => !one.secret);
			if (form !== undefined) await this.copy(form.text, form.secret ? NOTICE.copiedCommand : NOTICE.copiedWithout);
		});
	}

	copyEntry(client: "mcp-json" | "stdio-json"): Promise<boolean> {
		return this.tell(async () => {
			const { forms } = await this.controller.ask("connect/get", { client });
			const form = forms[0];
			if (form !== undefined) await this.copy(form.text, form.secret ? NOTICE.copiedEntry : NOTICE.copiedStdio);
		});
	}

	copyToken(): Promise<boolean> {
		return this.tell(async () => {
			const { token } = await this.controller.ask("token/get", {});
			await this.copy(token, NOTICE.copiedToken);
		});
	}

	/** Asks first. */
	regenerate(): void {
		new ConfirmationModal(this.app)
			.setTitle(DIALOG.regenerate)
			.setContent(DIALOG.regenerateText)
			.addButton((button) =>
				button
					.setButtonText(DIALOG.regenerateNow)
					.setDestructive()
					.setCta()
					.onClick(() => {
						void this.tell(async () => {
							await this.controller.ask("token/rotate", {});
							this.onRotated();
							new Notice(NOTICE.rotated);
						});
					}),
			)
			.addCancelButton(DIALOG.cancel)
			.open();
	}

	rebuild(): Promise<boolean> {
		return this.tell(async () => {
			await this.controller.ask("index/rebuild", {});
			new Notice(NOTICE.rebuilding);
		});
	}

	/** Every run that is under way. */
	cancelRuns(): Promise<boolean> {
		return this.tell(async () => {
			const { runs } = await this.controller.ask("runs/list", { limit: 100 });
			const running = runs.filter((run) => run.outcome === "running");
			await Promise.all(running.map((run) => this.controller.ask("runs/cancel", { id: run.id })));
			new Notice(running.length === 0 ? NOTICE.noRuns : cancelled(running.length));
		});
	}

	copyDiagnostics(): Promise<void> {
		return this.copy(diagnostics(this.controller), NOTICE.copied);
	}

	openLog(): void {
		new LogModal(this.app, this.controller.log).open();
	}

	/** Do what the button of a problem says. */
	async remedy(remedy: Remedy): Promise<void> {
		switch (remedy.does) {
			case "copy":
				return this.copy(remedy.command, NOTICE.copied);
			case "use-port":
				this.controller.device.later({ port: remedy.port });
				return this.controller.restart();
			case "retry":
				return this.controller.restart();
			case "clear-path":
				this.controller.device.program = "";
				return this.controller.restart();
			case "diagnostics":
				return this.copyDiagnostics();
			case "show-skipped":
				await this.tell(async () => {
					const { skipped, skippedInAll } = await this.controller.ask("status", {});
					new SkippedModal(this.app, skipped, skippedInAll).open();
				});
		}
	}
}
