/** Two windows that only list: notes that are not searchable, and the log. */

import { Modal, type App } from "obsidian";

import type { Result } from "./protocol";
import { DIALOG, more } from "./text";

export class SkippedModal extends Modal {
	constructor(
		app: App,
		private readonly skipped: Result<"status">["skipped"],
		private readonly inAll: number,
	) {
		super(app);
	}

	override onOpen(): void {
		this.setTitle(DIALOG.skipped);
		const list = this.contentEl.createEl("ul", { cls: "vault-sidecar-skipped" });
		for (const { path, reason } of this.skipped) {
			const item = list.createEl("li");
			item.createEl("strong", { text: path });
			item.createDiv({ text: reason, cls: "setting-item-description" });
		}
		const hidden = this.inAll - this.skipped.length;
		if (hidden > 0) this.contentEl.createEl("p", { text: more(hidden) });
	}
}

export class LogModal extends Modal {
	constructor(
		app: App,
		private readonly lines: readonly string[],
	) {
		super(app);
	}

	override onOpen(): void {
		this.setTitle(DIALOG.log);
		this.modalEl.addClass("vault-sidecar-wide");
		if (this.lines.length === 0) this.contentEl.createEl("p", { text: DIALOG.noLog });
		else this.contentEl.createEl("pre", { cls: "vault-sidecar-log", text: this.lines.join("\n") });
	}
}
