/** The settings tab: its rows in order, and where their values live. */

import { PluginSettingTab, type App, type Setting, type SettingDefinitionItem, type SettingGroupItem } from "obsidian";

import type { Actions } from "./actions";
import { agentsPage, type Known } from "./agentsPage";
import { button, drawClaude, drawOthers, onlyWhileWorking, ShownToken } from "./connectRows";
import type { Controller } from "./controller";
import { addField } from "./fields";
import type SidecarPlugin from "./main";
import type { SettingsGiven } from "./protocol";
import { drawStatus } from "./statusRow";
import { PORT_RULE, programInUse, proposalsWaiting, TAB } from "./text";

const SHOWN_RUNS = 20;

type SurfaceKey = "library" | "databases" | "knowledge";

export class SidecarTab extends PluginSettingTab {
	private readonly known: Known = { agents: null, runs: [] };
	private open = 0;
	private wasWorking = false;
	/** Something may have changed since the last round began. */
	private isDue = false;
	private rounds: Promise<void> | null = null;
	private readonly token: ShownToken;

	constructor(
		app: App,
		private readonly sidecar: SidecarPlugin,
		private readonly controller: Controller,
		private readonly actions: Actions,
		private readonly review: () => void,
	) {
		super(app, sidecar);
		this.icon = "radio-tower";
		this.token = new ShownToken(controller, actions);
		actions.onRotated = () => this.token.hide();
		sidecar.register(controller.watch(() => this.follow()));
		sidecar.register(controller.on("settings/changed", () => this.update()));
		sidecar.register(controller.on("agents/changed", () => void this.refresh()));
		sidecar.register(controller.on("run/finished", () => void this.refresh()));
		sidecar.register(
			controller.on("notice", ({ code }) => {
				if (code === "token-replaced") this.token.hide();
			}),
		);
		sidecar.register(
			controller.on("proposals/changed", ({ open }) => {
				this.open = open;
				this.update();
			}),
		);
	}

	override getSettingDefinitions(): SettingDefinitionItem[] {
		const { controller, actions } = this;
		return [
			{ name: TAB.enable, desc: TAB.enableDesc, control: { type: "toggle", key: "enabled" } },
			{ name: TAB.status, render: (setting) => drawStatus(setting, controller, actions) },
			{ type: "group", heading: TAB.connect, items: this.connectRows() },
			{ type: "group", heading: TAB.permissions, items: this.permissionRows() },
			...this.agentsEntry(),
			{ type: "group", heading: TAB.advanced, items: this.advancedRows() },
		];
	}

	/**
	 * Ask for agents, runs and proposals; draw the tab anew if something is other than before.
	 *
	 * One round at a time: answers may overtake each other, and the oldest must not be what stays.
	 */
	refresh(): Promise<void> {
		this.isDue = true;
		this.rounds ??= this.catchUp().finally(() => (this.rounds = null));
		return this.rounds;
	}

	private async catchUp(): Promise<void> {
		while (this.isDue) {
			this.isDue = false;
			await this.ask();
		}
	}

	private async ask(): Promise<void> {
		const before = JSON.stringify([this.known, this.open]);
		try {
			if (this.controller.has("agents")) {
				this.known.agents = await this.controller.ask("agents/list", {});
				this.known.runs = (await this.controller.ask("runs/list", { limit: SHOWN_RUNS })).runs;
			}
			if (this.controller.has("proposals")) {
				const { proposals, left } = await this.controller.ask("proposals/list", {});
				this.open = proposals.length + left;
			}
		} catch (error) {
			this.controller.note(`plugin: ${String(error)}`); // it ended meanwhile, or the next event brings us back
		}
		if (JSON.stringify([this.known, this.open]) !== before) this.update();
	}

	override hide(): void {
		this.token.hide();
		super.hide();
	}

	override getControlValue(key: string): unknown {
		const { settings, device } = this.controller;
		switch (key) {
			case "enabled":
				return device.enabled;
			case "allowWrites":
				return settings.allowWrites;
			case "agentsFolder":
				return settings.agentsFolder;
			case "provider":
				return settings.provider ?? "";
			case "statusBar":
				return this.sidecar.shared.statusBar;
			default:
				return settings.surfaces[key as SurfaceKey] ?? false;
		}
	}

	override async setControlValue(key: string, value: unknown): Promise<void> {
		if (key === "enabled") return this.controller.setEnabled(value === true);
		if (key === "statusBar") return this.sidecar.keepShared({ statusBar: value === true });
		if (value === "") return; // no provider can be chosen once there is one
		const went = await this.actions.tell(() => this.controller.change(changeOf(key, value)));
		if (!went) this.update(); // the row shows what holds
	}

	private connectRows(): SettingGroupItem[] {
		const { controller, actions } = this;
		return [
			{ name: TAB.claude, desc: TAB.claudeDesc, render: (setting) => drawClaude(setting, controller, actions) },
			{ name: TAB.others, desc: TAB.othersDesc, render: (setting) => drawOthers(setting, controller, actions) },
			{ name: TAB.token, desc: TAB.tokenDesc, render: (setting) => this.token.draw(setting) },
			{ name: TAB.port, desc: TAB.portDesc, render: (setting) => this.drawPort(setting) },
		];
	}

	private drawPort(setting: Setting): void {
		const { port } = this.controller.settings;
		addField(setting, {
			value: port === null || port === 0 ? "" : String(port),
			placeholder: port === 0 ? TAB.portRandom : FIRST_PORT,
			type: "number",
			check: portProblem,
			commit: (value) => this.actions.tryChange({ port: Number(value) }),
		});
	}

	private permissionRows(): SettingGroupItem[] {
		const { controller } = this;
		const has = (surface: SurfaceKey) => () => surface in controller.settings.surfaces;
		return [
			{ name: TAB.writes, desc: TAB.writesDesc, control: { type: "toggle", key: "allowWrites" } },
			{ name: TAB.library, desc: TAB.libraryDesc, visible: has("library"), control: { type: "toggle", key: "library" } },
			{ name: TAB.databases, desc: TAB.databasesDesc, visible: has("databases"), control: { type: "toggle", key: "databases" } },
			{ name: TAB.knowledge, desc: TAB.knowledgeDesc, visible: has("knowledge"), control: { type: "toggle", key: "knowledge" } },
			{ name: TAB.proposals, desc: proposalsWaiting(this.open), render: (setting) => this.drawProposals(setting) },
		];
	}

	private drawProposals(setting: Setting): () => void {
		const review = button(setting, TAB.review, this.review);
		if (this.open > 0) review.setCta();
		return onlyWhileWorking(this.controller, [review], "proposals");
	}

	private agentsEntry(): SettingDefinitionItem[] {
		const { value, isWarning, items } = agentsPage(this.app, this.controller, this.actions, this.known, this);
		return [
			{
				type: "page",
				name: TAB.agents,
				desc: TAB.agentsDesc,
				displayValue: value,
				status: isWarning ? "warning" : null,
				items,
			},
		];
	}

	private advancedRows(): SettingGroupItem[] {
		const { controller, actions } = this;
		return [
			{ name: TAB.program, render: (setting) => this.drawProgram(setting) },
			{
				name: TAB.rebuild,
				desc: TAB.rebuildDesc,
				render: (setting) => onlyWhileWorking(controller, [button(setting, TAB.rebuildNow, () => actions.rebuild())]),
			},
			{ name: TAB.diagnostics, desc: TAB.diagnosticsDesc, action: () => void actions.copyDiagnostics() },
			{ name: TAB.log, desc: TAB.logDesc, action: () => actions.openLog() },
			{ name: TAB.statusBar, desc: TAB.statusBarDesc, control: { type: "toggle", key: "statusBar" } },
		];
	}

	private drawProgram(setting: Setting): () => void {
		const { controller } = this;
		const show = addField(setting, {
			value: controller.device.program,
			placeholder: TAB.programFound,
			check: () => null, // whether it can be used shows at once, in the Status row
			commit: async (value) => {
				controller.device.program = value;
				await controller.restart();
				return null;
			},
		});
		const draw = (): void => {
			show(controller.device.program); // the button of a problem may have cleared it
			setting.setDesc(controller.program === null ? TAB.programDesc : programInUse(controller.program, controller.sidecar));
		};
		draw();
		return controller.watch(draw);
	}

	/** Keep up with the daemon: what it can tell only while it works is asked for when it begins to. */
	private follow(): void {
		const { isWorking } = this.controller;
		if (isWorking === this.wasWorking) return;
		this.wasWorking = isWorking;
		this.token.hide();
		this.update();
		void this.refresh();
	}
}

const FIRST_PORT = "24783"; // what a new vault gets if it is free

function portProblem(value: string): string | null {
	const port = Number(value);
	return /^\d+$/.test(value) && port >= 1024 && port <= 65535 ? null : PORT_RULE;
}

function changeOf(key: string, value: unknown): SettingsGiven {
	if (key === "allowWrites") return { allowWrites: value === true };
	if (key === "agentsFolder") return { agentsFolder: String(value) };
	if (key === "provider") return { provider: value as "anthropic" | "openai" };
	return { surfaces: { [key as SurfaceKey]: value === true } };
}
