/** Review of what clients propose: the list, one proposal with its changes, apply and reject. */

import { ButtonComponent, Modal, Notice, Setting, type App } from "obsidian";

import type { Actions } from "./actions";
import type { Controller } from "./controller";
import { diffLines } from "./diff";
import type { Proposal, Result } from "./protocol";
import { applied, DIALOG, more, notApplicable, notApplied, proposalDesc, rejected, short, TAB, unreadableProposal } from "./text";

export class ProposalsModal extends Modal {
	private stop: () => void = () => undefined;
	/** Number of what is drawn, or asked for: the answer to an earlier question must not be drawn over it. */
	private page = 0;

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
		this.turn();
	}

	/** Leave the page; the number of the next one. */
	private turn(): number {
		this.stop();
		return (this.page += 1);
	}

	/** Every open proposal; drawn anew when one comes or goes. */
	private async list(): Promise<void> {
		const page = this.turn();
		this.stop = this.controller.on("proposals/changed", () => void this.list());
		await this.actions.tell(async () => {
			const listed = await this.controller.ask("proposals/list", {});
			if (page === this.page) this.drawList(listed);
		});
	}

	private drawList({ proposals, unreadable, left }: Result<"proposals/list">): void {
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
	}

	private async show(id: string): Promise<void> {
		const page = this.turn(); // what a person reads must not change under their eyes
		const went = await this.actions.tell(async () => {
			const shown = await this.controller.ask("proposals/show", { id });
			if (page === this.page) this.draw(shown);
		});
		if (!went && page === this.page && this.controller.isWorking) await this.list();
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
	private drawButtons({ id, title }: Proposal, seen: string, canApply: boolean): void {
		const reason = this.contentEl.createEl("input", {
			cls: "vault-sidecar-reason",
			type: "text",
			placeholder: DIALOG.reason,
			attr: { maxlength: "2000" },
		});
		const bar = this.contentEl.createDiv({ cls: "modal-button-container" });
		const dim = (isDeciding: boolean): void => {
			reject.setDisabled(isDeciding);
			apply.setDisabled(isDeciding || !canApply);
		};
		new ButtonComponent(bar).setButtonText(DIALOG.back).onClick(() => this.list());
		const reject = new ButtonComponent(bar)
			.setButtonText(DIALOG.reject)
			.setDestructive()
			.onClick(() => this.decide(dim, () => this.reject(id, title, reason.value.trim())));
		const apply = new ButtonComponent(bar)
			.setButtonText(DIALOG.apply)
			.setCta()
			.onClick(() => this.decide(dim, () => this.apply(id, title, seen)));
		dim(false);
	}

	/** Settle it, once however often is clicked, and go back to the list. */
	private async decide(dim: (isDeciding: boolean) => void, work: () => Promise<void>): Promise<void> {
		const { page } = this;
		dim(true);
		const went = await this.actions.tell(work);
		if (!went) dim(false);
		else if (page === this.page) await this.list();
	}

	private async apply(id: string, title: string, seen: string): Promise<void> {
		const { status, reason } = await this.controller.ask("proposals/apply", { id, seen });
		new Notice(status === "applied" ? applied(title) : notApplied(reason ?? ""));
	}

	private async reject(id: string, title: string, reason: string): Promise<void> {
		await this.controller.ask("proposals/reject", reason === "" ? { id } : { id, reason });
		new Notice(rejected(title));
	}
}
