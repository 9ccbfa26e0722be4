/** What covers the page: notices and dialogs. */

import type * as real from "obsidian";

import { ButtonComponent } from "./components";
import { missing } from "./missing";

/** Every notice that was shown, oldest first. */
export const notices: string[] = [];

export class Notice implements real.Notice {
	noticeEl: HTMLElement;
	containerEl: HTMLElement;
	messageEl: HTMLElement;

	constructor(message: string | DocumentFragment, duration = 5000) {
		const container = document.querySelector<HTMLElement>(".notice-container");
		this.containerEl = container ?? document.body.createDiv("notice-container");
		this.noticeEl = this.containerEl.createDiv("notice");
		this.messageEl = this.noticeEl.createDiv("notice-message");
		this.setMessage(message);
		notices.push(this.messageEl.getText());
		this.noticeEl.addEventListener("click", () => this.hide());
		if (duration > 0) window.setTimeout(() => this.hide(), duration);
	}

	setMessage(message: string | DocumentFragment): this {
		this.messageEl.setText(message);
		return this;
	}

	hide(): void {
		this.noticeEl.remove();
	}
}

export class Modal implements real.Modal {
	get scope(): real.Scope {
		return missing("Modal.scope")();
	}
	containerEl: HTMLElement;
	modalEl: HTMLElement;
	titleEl: HTMLElement;
	contentEl: HTMLElement;
	shouldRestoreSelection = true;
	private closed: () => unknown = () => undefined;

	constructor(readonly app: real.App) {
		this.containerEl = document.createElement("div");
		this.containerEl.addClass("modal-container");
		this.containerEl.createDiv("modal-bg").addEventListener("click", () => this.close());
		this.modalEl = this.containerEl.createDiv("modal");
		this.modalEl.createDiv("modal-close-button").addEventListener("click", () => this.close());
		this.titleEl = this.modalEl.createDiv("modal-title");
		this.contentEl = this.modalEl.createDiv("modal-content");
	}

	open(): void {
		document.body.appendChild(this.containerEl);
		void this.onOpen();
	}

	close(): void {
		this.containerEl.remove();
		this.onClose();
		this.closed();
	}

	onOpen(): Promise<void> | void {
		return;
	}

	onClose(): void {
		return;
	}

	setTitle(title: string): this {
		this.titleEl.setText(title);
		return this;
	}

	setContent(content: string | DocumentFragment): this {
		this.contentEl.setText(content);
		return this;
	}

	setCloseCallback(callback: () => unknown): this {
		this.closed = callback;
		return this;
	}
}

class ConfirmationButton extends ButtonComponent {
	constructor(
		containerEl: HTMLElement,
		private readonly modal: Modal,
	) {
		super(containerEl);
	}

	override onClick(handler: (evt: MouseEvent) => unknown): this {
		this.buttonEl.addEventListener("click", (event) => {
			if (!handler(event)) this.modal.close();
		});
		return this;
	}

	setInitialFocus(): this {
		return this;
	}

	setSecondary(): this {
		return this.setClass("mod-secondary");
	}

	setCancel(): this {
		return this.setClass("mod-cancel");
	}
}

export class ConfirmationModal extends Modal implements real.ConfirmationModal {
	buttonContainerEl: HTMLElement;
	addCheckbox = missing("ConfirmationModal.addCheckbox");

	constructor(app: real.App) {
		super(app);
		this.modalEl.addClass("mod-confirmation");
		this.buttonContainerEl = this.modalEl.createDiv("modal-button-container");
	}

	addClass(cls: string): this {
		this.modalEl.addClass(cls);
		return this;
	}

	addButton(callback: (button: real.ConfirmationButton) => unknown): this {
		// its constructor is private in the types, which makes it a type that nothing else can be
		callback(new ConfirmationButton(this.buttonContainerEl, this));
		return this;
	}

	addCancelButton(text = "Cancel"): this {
		new ConfirmationButton(this.buttonContainerEl, this).setCancel().setButtonText(text).onClick(() => undefined);
		return this;
	}
}
