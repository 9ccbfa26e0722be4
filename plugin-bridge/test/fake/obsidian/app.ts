/** The app as far as the plugin touches it. Members that begin with `fake` are for tests. */

import type * as real from "obsidian";

import type { PluginSettingTab } from "./tab";

type QuitTasks = Pick<real.Tasks, "add" | "addPromise">;

export class FileSystemAdapter implements Pick<real.FileSystemAdapter, "getBasePath"> {
	constructor(private readonly basePath: string) {}

	getBasePath(): string {
		return this.basePath;
	}
}

class Workspace implements Pick<real.Workspace, "onLayoutReady"> {
	private readonly quitting = new Set<(tasks: QuitTasks) => unknown>();
	private waiting: (() => unknown)[] | null = [];

	onLayoutReady(callback: () => unknown): void {
		if (this.waiting === null) callback();
		else this.waiting.push(callback);
	}

	on(name: "quit", callback: (tasks: QuitTasks) => unknown): real.EventRef {
		if ((name as string) !== "quit") throw new Error(`the fake has no workspace event ${String(name)}`);
		this.quitting.add(callback);
		return { off: () => this.quitting.delete(callback) };
	}

	fakeLayoutReady(): void {
		const { waiting } = this;
		this.waiting = null;
		for (const callback of waiting ?? []) callback();
	}

	/** The app quits; resolves once every task is done. */
	async fakeQuit(): Promise<void> {
		const tasks: Promise<unknown>[] = [];
		for (const callback of this.quitting) {
			callback({ add: (task) => void tasks.push(task()), addPromise: (task) => void tasks.push(task) });
		}
		await Promise.all(tasks);
	}
}

class SecretStorage implements Pick<real.SecretStorage, "setSecret" | "getSecret" | "listSecrets"> {
	private readonly secrets = new Map<string, string>();

	setSecret(id: string, secret: string): void {
		if (!/^[a-z0-9-]+$/.test(id)) throw new Error("Invalid secret ID");
		this.secrets.set(id, secret);
	}

	getSecret(id: string): string | null {
		return this.secrets.get(id) ?? null;
	}

	listSecrets(): string[] {
		return [...this.secrets.keys()];
	}
}

export class FakeApp implements Pick<real.App, "loadLocalStorage" | "saveLocalStorage"> {
	readonly workspace = new Workspace();
	readonly secretStorage = new SecretStorage();
	readonly vault: { adapter: FileSystemAdapter; getFolderByPath(path: string): unknown };
	readonly setting = {
		open: () => undefined,
		openTabById: (id: string) => this.fakeOpenTab(id),
	};
	readonly fakeStatusBar: HTMLElement;
	readonly fakeCommands = new Map<string, real.Command>();
	readonly fakeTabs = new Map<string, PluginSettingTab>();
	/** data.json of each plugin, as text. */
	readonly fakeData = new Map<string, string>();
	/** What is kept per device, as text, as the app keeps it. */
	readonly fakeLocal = new Map<string, string>();

	constructor(basePath: string, hasFolder: (path: string) => boolean = () => true) {
		this.vault = {
			adapter: new FileSystemAdapter(basePath),
			getFolderByPath: (path) => (hasFolder(path) ? { path } : null),
		};
		this.fakeStatusBar = document.body.createDiv("status-bar");
	}

	loadLocalStorage(key: string): unknown {
		const raw = this.fakeLocal.get(key);
		return raw === undefined ? null : JSON.parse(raw);
	}

	saveLocalStorage(key: string, data: unknown): void {
		if (data === null) this.fakeLocal.delete(key);
		else this.fakeLocal.set(key, JSON.stringify(data));
	}

	fakeOpenTab(id: string): PluginSettingTab {
		const tab = this.fakeTabs.get(id);
		if (tab === undefined) throw new Error(`no tab ${id}`);
		tab.fakeShow(document.body);
		return tab;
	}

	/** Names of the commands that the palette would offer now. */
	fakePalette(): string[] {
		return [...this.fakeCommands.values()].filter((command) => command.checkCallback?.(true)).map(({ name }) => name);
	}

	/** Choose a command of the palette by its name. */
	fakeRun(name: string): void {
		const command = [...this.fakeCommands.values()].find((one) => one.name === name);
		if (command?.checkCallback?.(true) !== true) throw new Error(`the palette does not offer '${name}' now`);
		command.checkCallback(false);
	}
}
