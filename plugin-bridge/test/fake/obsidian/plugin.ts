/** The life of a plugin: what it registers is undone when it is unloaded, in reverse order. */

import type * as real from "obsidian";

import { FakeApp } from "./app";
import { missing } from "./missing";
import type { PluginSettingTab } from "./tab";

export class Component implements real.Component {
	private undo: (() => unknown)[] = [];
	addChild = missing("Component.addChild");
	removeChild = missing("Component.removeChild");
	registerInterval = missing("Component.registerInterval");

	load(): void {
		void this.onload();
	}

	onload(): void {
		return;
	}

	unload(): void {
		for (const callback of this.undo.splice(0).reverse()) callback();
		this.onunload();
	}

	onunload(): void {
		return;
	}

	register(callback: () => unknown): void {
		this.undo.push(callback);
	}

	registerEvent(ref: real.EventRef): void {
		this.register(() => (ref as unknown as { off(): void }).off());
	}

	registerDomEvent(el: EventTarget, type: string, callback: (event: never) => unknown): void {
		const listener = callback as unknown as EventListener;
		el.addEventListener(type, listener);
		this.register(() => el.removeEventListener(type, listener));
	}
}

export abstract class Plugin extends Component implements real.Plugin {
	settings?: unknown;
	addRibbonIcon = missing("Plugin.addRibbonIcon");
	removeCommand = missing("Plugin.removeCommand");
	registerView = missing("Plugin.registerView");
	registerHoverLinkSource = missing("Plugin.registerHoverLinkSource");
	registerExtensions = missing("Plugin.registerExtensions");
	registerMarkdownPostProcessor = missing("Plugin.registerMarkdownPostProcessor");
	registerMarkdownCodeBlockProcessor = missing("Plugin.registerMarkdownCodeBlockProcessor");
	registerBasesView = missing("Plugin.registerBasesView");
	registerEditorExtension = missing("Plugin.registerEditorExtension");
	registerObsidianProtocolHandler = missing("Plugin.registerObsidianProtocolHandler");
	registerEditorSuggest = missing("Plugin.registerEditorSuggest");
	registerCliHandler = missing("Plugin.registerCliHandler");
	private readonly fakeApp: FakeApp;

	constructor(
		readonly app: real.App,
		readonly manifest: real.PluginManifest,
	) {
		super();
		this.fakeApp = app as unknown as FakeApp;
	}

	// eslint-disable-next-line @typescript-eslint/no-misused-promises -- it is so in the real types, too
	override onload(): Promise<void> | void {
		return;
	}

	addStatusBarItem(): HTMLElement {
		const item = this.fakeApp.fakeStatusBar.createDiv("status-bar-item");
		this.register(() => item.remove());
		return item;
	}

	addCommand(command: real.Command): real.Command {
		if (/vault-sidecar|command/i.test(command.id)) throw new Error(`the app puts the plugin's id before ${command.id} itself`);
		const id = `${this.manifest.id}:${command.id}`;
		this.fakeApp.fakeCommands.set(id, command);
		this.register(() => this.fakeApp.fakeCommands.delete(id));
		return { ...command, id };
	}

	addSettingTab(tab: real.PluginSettingTab): void {
		const fake = tab as unknown as PluginSettingTab;
		this.fakeApp.fakeTabs.set(this.manifest.id, fake);
		fake.update();
		this.register(() => {
			fake.hide();
			fake.containerEl.remove();
			this.fakeApp.fakeTabs.delete(this.manifest.id);
		});
	}

	async loadData(): Promise<unknown> {
		const raw = await Promise.resolve(this.fakeApp.fakeData.get(this.manifest.id));
		return raw === undefined ? null : JSON.parse(raw);
	}

	saveData(data: unknown): Promise<void> {
		this.fakeApp.fakeData.set(this.manifest.id, JSON.stringify(data));
		return Promise.resolve();
	}

	onUserEnable(): void {
		return;
	}
}
