/** A row of settings, and a group of rows. */

import type * as real from "obsidian";

import {
	ButtonComponent,
	DisplayValueComponent,
	DropdownComponent,
	ExtraButtonComponent,
	ProgressBarComponent,
	TextComponent,
	ToggleComponent,
	type BaseComponent,
} from "./components";
import { missing } from "./missing";

export class Setting implements real.Setting {
	settingEl: HTMLElement;
	infoEl: HTMLElement;
	nameEl: HTMLElement;
	descEl: HTMLElement;
	controlEl: HTMLElement;
	components: BaseComponent[] = [];
	errorEl: HTMLElement | null = null;
	addSearch = missing("Setting.addSearch");
	addTextArea = missing("Setting.addTextArea");
	addMomentFormat = missing("Setting.addMomentFormat");
	addColorPicker = missing("Setting.addColorPicker");
	addSlider = missing("Setting.addSlider");

	constructor(containerEl: HTMLElement) {
		this.settingEl = containerEl.createDiv("setting-item");
		this.infoEl = this.settingEl.createDiv("setting-item-info");
		this.nameEl = this.infoEl.createDiv("setting-item-name");
		this.descEl = this.infoEl.createDiv("setting-item-description");
		this.controlEl = this.settingEl.createDiv("setting-item-control");
	}

	setErrorMessage(message: string | null): this {
		this.settingEl.toggleClass("is-invalid", !!message);
		this.errorEl?.remove();
		this.errorEl = message ? this.infoEl.createDiv({ cls: "setting-item-error", text: message }) : null;
		return this;
	}

	addDisplayValue(callback: (component: DisplayValueComponent) => unknown): this {
		callback(new DisplayValueComponent(this.controlEl));
		return this;
	}

	setName(name: string | DocumentFragment): this {
		this.nameEl.setText(name);
		return this;
	}

	setDesc(desc: string | DocumentFragment): this {
		this.descEl.setText(desc);
		return this;
	}

	setClass(cls: string): this {
		this.settingEl.addClass(cls);
		return this;
	}

	setTooltip(tooltip: string): this {
		this.settingEl.setAttribute("aria-label", tooltip);
		return this;
	}

	setHeading(): this {
		return this.setClass("setting-item-heading");
	}

	setDisabled(disabled: boolean): this {
		this.settingEl.toggleClass("is-disabled", disabled);
		for (const component of this.components) component.setDisabled(disabled);
		return this;
	}

	addButton(callback: (component: ButtonComponent) => unknown): this {
		return this.add(new ButtonComponent(this.controlEl), callback);
	}

	addExtraButton(callback: (component: ExtraButtonComponent) => unknown): this {
		return this.add(new ExtraButtonComponent(this.controlEl), callback);
	}

	addToggle(callback: (component: ToggleComponent) => unknown): this {
		return this.add(new ToggleComponent(this.controlEl), callback);
	}

	addText(callback: (component: TextComponent) => unknown): this {
		return this.add(new TextComponent(this.controlEl), callback);
	}

	addComponent<T extends BaseComponent>(callback: (el: HTMLElement) => T): this {
		this.components.push(callback(this.controlEl));
		return this;
	}

	addDropdown(callback: (component: DropdownComponent) => unknown): this {
		return this.add(new DropdownComponent(this.controlEl), callback);
	}

	addProgressBar(callback: (component: ProgressBarComponent) => unknown): this {
		return this.add(new ProgressBarComponent(this.controlEl), callback);
	}

	then(callback: (setting: this) => unknown): this {
		callback(this);
		return this;
	}

	clear(): this {
		this.controlEl.empty();
		this.components = [];
		return this;
	}

	private add<C extends BaseComponent>(component: C, callback: (component: C) => unknown): this {
		this.components.push(component);
		callback(component);
		return this;
	}
}

export class SettingGroup implements real.SettingGroup {
	listEl: HTMLElement;
	addSearch = missing("SettingGroup.addSearch");
	private readonly groupEl: HTMLElement;
	private readonly headEl: Setting;

	constructor(containerEl: HTMLElement) {
		this.groupEl = containerEl.createDiv("setting-group");
		this.headEl = new Setting(this.groupEl).setHeading();
		this.headEl.settingEl.toggle(false);
		this.listEl = this.groupEl.createDiv("setting-items");
	}

	setHeading(text: string | DocumentFragment): this {
		this.headEl.setName(text).settingEl.toggle(true);
		return this;
	}

	addClass(...classes: string[]): this {
		this.groupEl.addClass(...classes);
		return this;
	}

	addSetting(callback: (setting: Setting) => void): this {
		callback(new Setting(this.listEl));
		return this;
	}

	addExtraButton(callback: (component: ExtraButtonComponent) => unknown): this {
		this.headEl.addExtraButton(callback);
		return this;
	}
}
