/** Draws settings tabs from their definitions, as the app does since 1.13. */

import type * as real from "obsidian";

import { Setting, SettingGroup } from "./setting";

type Item = real.SettingDefinitionItem;
type Row = real.SettingDefinition;
type Control = real.SettingControl;
type Group = real.SettingDefinitionGroup | real.SettingDefinitionList;
type Page = real.SettingDefinitionPage;

const CONTROLS = new Set<Control["type"]>(["toggle", "dropdown", "folder"]);

export abstract class SettingTab implements real.SettingTab {
	icon = "";
	containerEl: HTMLElement;
	settingItems: Item[] = [];
	/** Name of the page that is open within the tab; null: none. */
	private pageName: string | null = null;
	private isShown = false;
	private cleanups: (() => void)[] = [];
	private predicates: (() => void)[] = [];

	constructor(readonly app: real.App) {
		this.containerEl = document.createElement("div");
		this.containerEl.addClass("vertical-tab-content");
	}

	abstract getSettingDefinitions(): Item[];
	abstract getControlValue(key: string): unknown;
	abstract setControlValue(key: string, value: unknown): void | Promise<void>;

	update(): void {
		this.settingItems = this.getSettingDefinitions();
		if (this.isShown) this.render();
	}

	refreshDomState(): void {
		for (const apply of this.predicates) apply();
	}

	display(): void {
		throw new Error("display() is deprecated; the app does not call it where there are definitions");
	}

	hide(): void {
		this.isShown = false;
		this.clean();
	}

	/** The person opens the tab. */
	fakeShow(parent: HTMLElement): void {
		parent.appendChild(this.containerEl);
		this.isShown = true;
		this.pageName = null;
		this.update();
	}

	/** The person opens a page of the tab, or goes back with null. */
	fakeOpenPage(name: string | null): void {
		this.pageName = name;
		this.render();
	}

	private clean(): void {
		for (const cleanup of this.cleanups.splice(0)) cleanup();
		this.predicates = [];
		this.containerEl.empty();
	}

	private render(): void {
		this.clean();
		const page = this.settingItems.find((item): item is Page => isPage(item) && item.name === this.pageName);
		if (page !== undefined) {
			const bar = this.containerEl.createDiv("setting-page-titlebar");
			bar.createEl("button", { text: "‹", attr: { "aria-label": "Back" } }).addEventListener("click", () => this.fakeOpenPage(null));
			bar.createSpan({ text: page.name });
		}
		let loose: SettingGroup | null = null;
		for (const item of page?.items ?? this.settingItems) {
			if (isGroup(item)) {
				loose = null;
				this.renderGroup(item);
			} else {
				loose ??= new SettingGroup(this.containerEl);
				this.renderRow(item, loose);
			}
		}
	}

	private renderGroup(group: Group): void {
		if (!holds(group.visible, true)) return;
		const known = new Set(["type", "heading", "items", "visible", "emptyState", "extraButtons", "cls"]);
		refuseOthers(group, known);
		const shown = new SettingGroup(this.containerEl).addClass(`mod-${group.type}`);
		if (group.heading !== undefined) shown.setHeading(group.heading);
		for (const add of group.extraButtons ?? []) shown.addExtraButton(add);
		for (const item of group.items ?? []) this.renderRow(item, shown);
		const empty = group.type === "list" ? (group as real.SettingDefinitionList).emptyState : undefined;
		if (empty !== undefined && (group.items ?? []).length === 0) {
			shown.listEl.createDiv({ cls: "setting-list-empty", text: empty });
		}
	}

	private renderRow(row: Row | Page, group: SettingGroup): void {
		group.addSetting((setting) => {
			setting.setName(row.name);
			if (row.desc !== undefined) setting.setDesc(row.desc);
			const apply = (): void => setting.settingEl.toggle(holds(row.visible, true));
			this.predicates.push(apply);
			apply();
			if (isPage(row)) return this.renderEntry(row, setting);
			refuseOthers(row, new Set(["name", "desc", "aliases", "searchable", "visible", "control", "render", "action", "disabled"]));
			if (row.render !== undefined) {
				const cleanup = row.render(setting, group);
				if (cleanup) this.cleanups.push(cleanup);
			} else if (row.action !== undefined) {
				const { action } = row;
				setting.setClass("mod-action").settingEl.addEventListener("click", () => action(setting.settingEl, 0));
			} else if (row.control !== undefined) this.renderControl(row.control, setting);
		});
	}

	private renderEntry(page: Page, setting: Setting): void {
		setting.setClass("mod-page");
		const value = typeof page.displayValue === "function" ? page.displayValue() : (page.displayValue ?? null);
		const status = typeof page.status === "function" ? page.status() : (page.status ?? null);
		setting.addDisplayValue((display) => display.setValue(value).setStatus(status));
		setting.settingEl.addEventListener("click", () => this.fakeOpenPage(page.name));
	}

	private renderControl(control: Control, setting: Setting): void {
		if (!CONTROLS.has(control.type)) throw new Error(`the fake has no control ${control.type}; build it as the app has it`);
		const value = this.getControlValue(control.key) ?? control.defaultValue;
		const change = async (next: unknown): Promise<void> => {
			const validate = control.validate as ((value: unknown) => string | void | Promise<string | void>) | undefined;
			const wrong = await validate?.(next);
			setting.setErrorMessage(wrong ?? null);
			if (!wrong) await this.setControlValue(control.key, next);
		};
		const seeded = control.validate as ((value: unknown) => string | void) | undefined;
		setting.setErrorMessage(seeded?.(value) ?? null);
		if (control.type === "toggle") setting.addToggle((toggle) => toggle.setValue(value === true).onChange(change));
		else if (control.type === "dropdown") {
			setting.addDropdown((dropdown) => dropdown.addOptions(control.options).setValue(value as string).onChange(change));
		} else if (control.type === "folder") setting.addText((text) => text.setValue(value as string).onChange(change));
		const apply = (): void => void setting.setDisabled(holds(control.disabled, false));
		this.predicates.push(apply);
		apply();
	}
}

export abstract class PluginSettingTab extends SettingTab implements real.PluginSettingTab {
	constructor(
		app: real.App,
		readonly fakePlugin: real.Plugin,
	) {
		super(app);
	}
}

function isPage(item: Item): item is Page {
	return "type" in item && item.type === "page";
}

function isGroup(item: Item): item is Group {
	return "type" in item && item.type !== "page";
}

function holds(predicate: boolean | (() => boolean) | undefined, otherwise: boolean): boolean {
	return typeof predicate === "function" ? predicate() : (predicate ?? otherwise);
}

function refuseOthers(definition: object, known: Set<string>): void {
	for (const name of Object.keys(definition)) {
		if (!known.has(name)) throw new Error(`the fake does not know '${name}' of a definition; build it as the app has it`);
	}
}
