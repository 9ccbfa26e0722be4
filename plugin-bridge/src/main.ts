/** Wires the parts to the app; all else is theirs. */

import { FileSystemAdapter, Notice, Plugin, type App } from "obsidian";

import { Actions } from "./actions";
import { makeApi, type SidecarApi } from "./api";
import type { Clock } from "./clock";
import { commands } from "./commands";
import { launchOf, thisComputer } from "./computer";
import { Controller } from "./controller";
import { Device } from "./device";
import { locate } from "./locate";
import { ProposalsModal } from "./proposalsModal";
import { SidecarTab } from "./settings";
import { barText } from "./statusBar";
import { NOTICE, runNotice, sentence } from "./text";

/** What is kept in data.json, which synchronisation carries: taste, and nothing else. */
export interface Shared {
	statusBar: boolean;
}

export default class SidecarPlugin extends Plugin {
	/** For other plugins. */
	api!: SidecarApi;
	shared: Shared = { statusBar: true };
	private controller!: Controller;
	private statusBarItem: HTMLElement | null = null;

	override async onload(): Promise<void> {
		await this.readShared();
		const controller = this.makeController();
		this.controller = controller;
		this.api = makeApi(controller);
		const review = (): void => new ProposalsModal(this.app, controller, actions).open();
		const actions = new Actions(this.app, controller, () => openTab(this.app, this.manifest.id));
		this.addSettingTab(new SidecarTab(this.app, this, controller, actions, review));
		for (const command of commands(controller, actions, review)) this.addCommand(command);

		this.register(controller.watch(() => this.drawStatusBar()));
		this.register(controller.on("run/finished", ({ run }) => void new Notice(runNotice(run))));
		this.register(controller.on("notice", ({ text }) => void new Notice(sentence(text))));
		this.registerDomEvent(window, "beforeunload", () => controller.endNow());
		this.registerEvent(this.app.workspace.on("quit", (tasks) => tasks.addPromise(controller.dispose())));
		this.drawStatusBar();
		this.app.workspace.onLayoutReady(() => void controller.resume());
	}

	override onunload(): void {
		void this.controller.dispose();
	}

	override onUserEnable(): void {
		new Notice(NOTICE.firstRun);
	}

	override async onExternalSettingsChange(): Promise<void> {
		await this.readShared();
		this.drawStatusBar();
	}

	async keepShared(change: Partial<Shared>): Promise<void> {
		this.shared = { ...this.shared, ...change };
		await this.saveData(this.shared);
		this.drawStatusBar();
	}

	private async readShared(): Promise<void> {
		// a file that synchronisation has torn must not keep the plugin from loading
		const raw = (await this.loadData().catch(() => null)) as Partial<Shared> | null;
		this.shared = { statusBar: raw?.statusBar !== false };
	}

	private makeController(): Controller {
		const { adapter } = this.app.vault;
		const device = new Device(this.app);
		const host = thisComputer();
		return new Controller({
			device,
			clock: windowClock,
			vault: adapter instanceof FileSystemAdapter ? adapter.getBasePath() : null,
			version: this.manifest.version,
			home: host.home,
			locate: (configured) => locate(configured, host),
			launch: (program) => launchOf(program, host),
			key: () => (device.secret === "" ? null : this.app.secretStorage.getSecret(device.secret)),
		});
	}

	private drawStatusBar(): void {
		if (!this.shared.statusBar) {
			this.statusBarItem?.remove();
			this.statusBarItem = null;
			return;
		}
		if (this.statusBarItem === null) {
			this.statusBarItem = this.addStatusBarItem();
			this.statusBarItem.addClass("mod-clickable");
			this.registerDomEvent(this.statusBarItem, "click", () => openTab(this.app, this.manifest.id));
		}
		this.statusBarItem.setText(barText(this.controller));
	}
}

const windowClock: Clock = {
	now: () => Date.now(),
	after: (ms, then) => {
		const timer = window.setTimeout(then, ms);
		return () => window.clearTimeout(timer);
	},
};

/** The settings window is not in the published types, though every plugin that opens its tab uses it so. */
interface WithSettings extends App {
	setting?: { open(): void; openTabById(id: string): void };
}

function openTab(app: WithSettings, id: string): void {
	app.setting?.open();
	app.setting?.openTabById(id);
}
