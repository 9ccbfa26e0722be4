/** Review of what clients propose: the list, one proposal with its changes, apply and reject. */

import { ButtonComponent, Modal, Notice, Setting, type App } from "obsidian";

import type { Actions } from "./actions";
import type { Controller } from "./controller";
import { diffLines } from "./diff";
import type { Proposal, Result } from "./protocol";
import { applied, DIALOG, more, notApplicable, notApplied, proposalDesc, rejected, short, TAB, unreadableProposal } from "./text";

export class ProposalsModal extends Modal {
	private stop: () => void = () => undefined;

	constructor(
		app: App,
		private readonly controller: Controller,
		private readonly actions: Actions,
	) {
		super(app);
	}

	override onOpen(): void {
		this.modalEl.addClass("vault-sidecar-wide");
		void this.list();
	}

	override onClose(): void {
		this.stop();
	}

	/** Every open proposal; drawn anew when one comes or goes. */
	private async list(): Promise<void> {
		this.stop();
		this.stop = this.controller.on("proposals/changed", () => void this.list());
		await this.actions.tell(async () => {
			const { proposals, unreadable, left } = await this.controller.ask("proposals/list", {});
			this.setTitle(DIALOG.proposals);
			this.contentEl.empty();
			if (proposals.length === 0 && unreadable.length === 0) this.contentEl.createEl("p", { text: DIALOG.noProposals });
			for (const proposal of proposals) {
				new Setting(this.contentEl)
					.setName(short(proposal.title, 200))
					.setDesc(proposalDesc(proposal))
					.addButton((button) => button.setButtonText(TAB.review).onClick(() => this.show(proposal.id)));
			}
			for (const { name, reason } of unreadable) {
				this.contentEl.createDiv({ cls: "vault-sidecar-problem", text: unreadableProposal(name, reason) });
			}
			if (left > 0) this.contentEl.createDiv({ cls: "vault-sidecar-detail", text: more(left) });
		});
	}

	private async show(id: string): Promise<void> {
		this.stop(); // what a person reads must not change under their eyes
		await this.actions.tell(async () => {
			const shown = await this.controller.ask("proposals/show", { id });
			this.draw(shown);
		});
	}

	private draw({ proposal, diff, cut, problem, checksum }: Result<"proposals/show">): void {
		this.setTitle(short(proposal.title, 200));
		this.contentEl.empty();
		this.contentEl.createDiv({ cls: "setting-item-description", text: proposalDesc(proposal) });
		if (proposal.rationale.trim() !== "") {
			this.contentEl.createDiv({ cls: "vault-sidecar-rationale", text: proposal.rationale });
		}
		const view = this.contentEl.createDiv({ cls: "vault-sidecar-diff", attr: { tabindex: "0" } });
		for (const line of diffLines(diff)) {
			view.createDiv({ cls: `vault-sidecar-diff-line is-${line.kind}`, text: line.text === "" ? "\u00a0" : line.text });
		}
		const verdict = this.contentEl.createDiv({ cls: problem === null ? "vault-sidecar-detail" : "vault-sidecar-problem" });
		verdict.setText(problem === null ? DIALOG.applicable : notApplicable(problem));
		if (cut) this.contentEl.createDiv({ cls: "vault-sidecar-problem", text: DIALOG.cut });
		this.drawButtons(proposal, checksum, problem === null && !cut);
	}

	/** `seen` names the patch that is drawn: no other one is applied. */
	private drawButtons(proposal: Proposal, seen: string, canApply: boolean): void {
		const reason = this.contentEl.createEl("input", {
			cls: "vault-sidecar-reason",
			type: "text",
			placeholder: DIALOG.reason,
			attr: { maxlength: "2000" },
		});
		const bar = this.contentEl.createDiv({ cls: "modal-button-container" });
		new ButtonComponent(bar).setButtonText(DIALOG.back).onClick(() => this.list());
		new ButtonComponent(bar)
			.setButtonText(DIALOG.reject)
			.setDestructive()
			.onClick(() => this.reject(proposal, reason.value.trim()));
		new ButtonComponent(bar)
			.setButtonText(DIALOG.apply)
			.setCta()
			.setDisabled(!canApply)
			.onClick(() => this.apply(proposal, seen));
	}

	private async apply({ id, title }: Proposal, seen: string): Promise<void> {
		const settled = await this.actions.tell(async () => {
			const { status, reason } = await this.controller.ask("proposals/apply", { id, seen });
			new Notice(status === "applied" ? applied(title) : notApplied(reason ?? ""));
		});
		if (settled) await this.list();
	}

	private async reject({ id, title }: Proposal, reason: string): Promise<void> {
		const settled = await this.actions.tell(async () => {
			await this.controller.ask("proposals/reject", reason === "" ? { id } : { id, reason });
			new Notice(rejected(title));
		});
		if (settled) await this.list();
	}
}
