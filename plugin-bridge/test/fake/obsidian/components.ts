/** Buttons, toggles and texts of a settings row. */

import type * as real from "obsidian";

import { missing } from "./missing";

export class BaseComponent implements real.BaseComponent {
	disabled = false;

	then(callback: (component: this) => unknown): this {
		callback(this);
		return this;
	}

	setDisabled(disabled: boolean): this {
		this.disabled = disabled;
		return this;
	}
}

abstract class ValueComponent<T> extends BaseComponent implements real.ValueComponent<T> {
	registerOptionListener = missing("ValueComponent.registerOptionListener");
	abstract getValue(): T;
	abstract setValue(value: T): this;
}

export class ButtonComponent extends BaseComponent implements real.ButtonComponent {
	buttonEl: HTMLButtonElement;
	setWarning = missing("ButtonComponent.setWarning, which is deprecated");

	constructor(containerEl: HTMLElement) {
		super();
		this.buttonEl = containerEl.createEl("button");
	}

	override setDisabled(disabled: boolean): this {
		this.buttonEl.disabled = disabled;
		return super.setDisabled(disabled);
	}

	setCta(): this {
		return this.setClass("mod-cta");
	}

	removeCta(): this {
		this.buttonEl.removeClass("mod-cta");
		return this;
	}

	setDestructive(): this {
		return this.setClass("mod-destructive");
	}

	removeDestructive(): this {
		this.buttonEl.removeClass("mod-destructive");
		return this;
	}

	setTooltip(tooltip: string): this {
		this.buttonEl.setAttribute("aria-label", tooltip);
		if (tooltip === "") this.buttonEl.removeAttribute("aria-label");
		return this;
	}

	setButtonText(name: string): this {
		this.buttonEl.setText(name);
		return this;
	}

	setIcon(icon: string): this {
		setIcon(this.buttonEl, icon);
		return this;
	}

	setClass(cls: string): this {
		this.buttonEl.addClass(cls);
		return this;
	}

	onClick(callback: (evt: MouseEvent) => unknown): this {
		this.buttonEl.addEventListener("click", (event) => callback(event));
		return this;
	}
}

export class ExtraButtonComponent extends BaseComponent implements real.ExtraButtonComponent {
	extraSettingsEl: HTMLElement;

	constructor(containerEl: HTMLElement) {
		super();
		this.extraSettingsEl = containerEl.createDiv("clickable-icon extra-setting-button");
	}

	setTooltip(tooltip: string): this {
		this.extraSettingsEl.setAttribute("aria-label", tooltip);
		return this;
	}

	setIcon(icon: string): this {
		setIcon(this.extraSettingsEl, icon);
		return this;
	}

	onClick(callback: () => unknown): this {
		this.extraSettingsEl.addEventListener("click", () => callback());
		return this;
	}
}

export class ToggleComponent extends ValueComponent<boolean> implements real.ToggleComponent {
	toggleEl: HTMLElement;
	private on = false;
	private changed: (value: boolean) => unknown = () => undefined;

	constructor(containerEl: HTMLElement) {
		super();
		this.toggleEl = containerEl.createDiv({ cls: "checkbox-container", attr: { role: "switch", tabindex: "0" } });
		this.toggleEl.addEventListener("click", () => this.onClick());
	}

	override setDisabled(disabled: boolean): this {
		this.toggleEl.toggleClass("is-disabled", disabled);
		return super.setDisabled(disabled);
	}

	getValue(): boolean {
		return this.on;
	}

	/** Tells of the change, as the app's does. */
	setValue(on: boolean): this {
		if (this.on === on) return this;
		this.on = on;
		this.toggleEl.toggleClass("is-enabled", on);
		this.changed(on);
		return this;
	}

	setTooltip(tooltip: string): this {
		this.toggleEl.setAttribute("aria-label", tooltip);
		return this;
	}

	onClick(): void {
		if (!this.disabled) this.setValue(!this.on);
	}

	onChange(callback: (value: boolean) => unknown): this {
		this.changed = callback;
		return this;
	}
}

export class TextComponent extends ValueComponent<string> implements real.TextComponent {
	inputEl: HTMLInputElement;

	constructor(containerEl: HTMLElement) {
		super();
		this.inputEl = containerEl.createEl("input", { type: "text" });
	}

	override setDisabled(disabled: boolean): this {
		this.inputEl.disabled = disabled;
		return super.setDisabled(disabled);
	}

	getValue(): string {
		return this.inputEl.value;
	}

	setValue(value: string): this {
		this.inputEl.value = value;
		return this;
	}

	setPlaceholder(placeholder: string): this {
		this.inputEl.placeholder = placeholder;
		return this;
	}

	onChanged(): void {
		this.inputEl.dispatchEvent(new Event("input"));
	}

	onChange(callback: (value: string) => unknown): this {
		this.inputEl.addEventListener("input", () => callback(this.inputEl.value));
		return this;
	}
}

export class DropdownComponent extends ValueComponent<string> implements real.DropdownComponent {
	selectEl: HTMLSelectElement;

	constructor(containerEl: HTMLElement) {
		super();
		this.selectEl = containerEl.createEl("select", { cls: "dropdown" });
	}

	override setDisabled(disabled: boolean): this {
		this.selectEl.disabled = disabled;
		return super.setDisabled(disabled);
	}

	addOption(value: string, display: string): this {
		this.selectEl.createEl("option", { value, text: display });
		return this;
	}

	addOptions(options: Record<string, string>): this {
		for (const [value, display] of Object.entries(options)) this.addOption(value, display);
		return this;
	}

	getValue(): string {
		return this.selectEl.value;
	}

	setValue(value: string): this {
		this.selectEl.value = value;
		return this;
	}

	onChange(callback: (value: string) => unknown): this {
		this.selectEl.addEventListener("change", () => callback(this.selectEl.value));
		return this;
	}
}

export class ProgressBarComponent extends ValueComponent<number> implements real.ProgressBarComponent {
	private readonly lineEl: HTMLElement;
	private value = 0;

	constructor(containerEl: HTMLElement) {
		super();
		const bar = containerEl.createDiv("setting-progress-bar");
		this.lineEl = bar.createDiv("setting-progress-bar-inner");
	}

	getValue(): number {
		return this.value;
	}

	setValue(value: number): this {
		this.value = value;
		this.lineEl.style.width = `${value}%`;
		return this;
	}
}

export class DisplayValueComponent implements real.DisplayValueComponent {
	valueEl: HTMLElement;

	constructor(containerEl: HTMLElement) {
		this.valueEl = containerEl.createSpan("setting-display-value");
	}

	setValue(value: string | null): this {
		this.valueEl.setText(value ?? "");
		return this;
	}

	setStatus(status: "warning" | null): this {
		this.valueEl.toggleClass("mod-warning", status === "warning");
		return this;
	}
}

/** Shows the names of secrets to choose from. */
export class SecretComponent extends BaseComponent implements real.SecretComponent {
	private readonly select: DropdownComponent;

	constructor(app: real.App, containerEl: HTMLElement) {
		super();
		this.select = new DropdownComponent(containerEl).addOption("", "Choose a secret...");
		for (const name of app.secretStorage.listSecrets()) this.select.addOption(name, name);
	}

	setValue(value: string): this {
		this.select.setValue(value);
		return this;
	}

	onChange(callback: (value: string) => unknown): this {
		this.select.onChange(callback);
		return this;
	}
}

/** Draws the icon if the page has it (the visual harness does), else notes its name. */
export function setIcon(parent: HTMLElement, iconId: string): void {
	parent.empty();
	parent.setAttribute("data-icon", iconId);
}
