/** The page Agents of the tab: which agents there are, who may run them, who pays, and what was run. */

import { SecretComponent, type App, type SettingDefinitionItem, type SettingGroupItem } from "obsidian";

import type { Actions } from "./actions";
import { button } from "./connectRows";
import type { Controller } from "./controller";
import { addField } from "./fields";
import type { Agent, Agents, Run } from "./protocol";
import { agentDesc, agentName, agentProblems, agentsValue, folderMissing, noKey, runDesc, sentence, short, TAB } from "./text";

/** What the daemon told last about agents and runs. */
export interface Known {
	agents: Agents | null;
	runs: Run[];
}

/** What the page is drawn in. */
export interface Tab {
	/** Ask the daemon again. */
	refresh(): Promise<void>;
	/** Draw what is known. */
	update(): void;
}

export interface Page {
	value: string;
	isWarning: boolean;
	items: SettingDefinitionItem[];
}

export function agentsPage(app: App, controller: Controller, actions: Actions, known: Known, tab: Tab): Page {
	const { agents, runs } = known;
	const provider = agents?.provider ?? null;
	const someRemote = agents?.agents.some((agent) => agent.remote) === true;
	const keyMissing = provider !== null && !provider.hasKey && provider.kind === "anthropic";
	const hasProblem = agents?.agents.some((agent) => agentProblems(agent).length > 0) === true;
	return {
		value: agents === null ? "" : agentsValue(agents),
		isWarning: hasProblem || (someRemote && (keyMissing || provider === null)),
		items: [
			{
				name: TAB.folder,
				desc: TAB.folderDesc,
				control: { type: "folder", key: "agentsFolder", validate: (path) => folderProblem(app, path, controller.settings.agentsFolder) },
			},
			{
				type: "list",
				heading: TAB.remote, // what the toggles of its rows are
				emptyState: agents === null ? TAB.turnOn : TAB.noAgents,
				items: (agents?.agents ?? []).map((agent) => agentRow(agent, controller, actions, tab)),
			},
			{ type: "group", heading: TAB.models, items: providerRows(app, controller, actions, tab, keyMissing ? provider.name : null) },
			{
				type: "list",
				heading: TAB.runs,
				emptyState: TAB.noRuns,
				// a run that begins is not announced
				extraButtons: [(extra) => extra.setIcon("refresh-cw").setTooltip(TAB.refresh).onClick(() => void tab.refresh())],
				items: runs.map((run) => runRow(run, controller, actions)),
			},
		],
	};
}

/** The folder that is set may be missing: nobody has made an agent yet, and that is no mistake. */
function folderProblem(app: App, path: string, now: string): string | undefined {
	return path === now || app.vault.getFolderByPath(path) !== null ? undefined : folderMissing(path);
}

function agentRow(agent: Agent, controller: Controller, actions: Actions, tab: Tab): SettingGroupItem {
	return {
		name: agentName(agent),
		desc: agentDesc(agent),
		render: (setting) => {
			const problems = agentProblems(agent);
			for (const problem of problems) setting.infoEl.createDiv({ cls: "vault-sidecar-problem", text: problem });
			setting.addToggle((toggle) =>
				toggle
					.setTooltip(TAB.remote)
					.setValue(agent.remote)
					// what can't run may still be switched off
					.setDisabled(!controller.isWorking || (agent.problem !== null && !agent.remote))
					.onChange((on) => {
						void actions.tell(() => controller.ask("agents/setRemote", { name: agent.name, on })).then((went) => {
							if (!went) tab.update(); // setting the toggle back would count as a click
						});
					}),
			);
		},
	};
}

function providerRows(app: App, controller: Controller, actions: Actions, tab: Tab, keyless: string | null): SettingGroupItem[] {
	const { provider, baseUrl } = controller.settings;
	const offered: Record<string, string> = { anthropic: "Anthropic", openai: "OpenAI-compatible" };
	// none yet, or one that config.toml names; neither can be chosen here
	const other = provider !== null && provider in offered ? {} : { [provider ?? ""]: provider ?? TAB.providerNone };
	const options = { ...other, ...offered };
	return [
		{ name: TAB.provider, desc: TAB.providerDesc, control: { type: "dropdown", key: "provider", options } },
		{
			name: TAB.address,
			desc: TAB.addressDesc,
			render: (setting) => {
				addField(setting, {
					value: baseUrl ?? "",
					placeholder: "https://",
					check: () => null,
					commit: (value) => actions.tryChange({ baseUrl: value === "" ? null : value }),
				});
			},
		},
		{
			name: TAB.key,
			desc: TAB.keyDesc,
			render: (setting) => {
				if (keyless !== null) setting.infoEl.createDiv({ cls: "vault-sidecar-problem", text: noKey(keyless) });
				setting.addComponent((el) =>
					new SecretComponent(app, el).setValue(controller.device.secret).onChange((name) => {
						controller.device.secret = name;
						void actions.tell(() => controller.handKey()).then(() => tab.refresh());
					}),
				);
			},
		},
	];
}

function runRow(run: Run, controller: Controller, actions: Actions): SettingGroupItem {
	return {
		name: short(run.agent ?? TAB.unnamed, 64),
		desc: short(run.task ?? "", 200),
		searchable: false,
		render: (setting) => {
			setting.settingEl.addClass("vault-sidecar-run");
			setting.infoEl.createDiv({ cls: "vault-sidecar-detail", text: runDesc(run) });
			if (run.reason !== null) setting.infoEl.createDiv({ cls: "vault-sidecar-problem", text: sentence(run.reason) });
			if (run.outcome !== "running" || !controller.isWorking) return;
			button(setting, TAB.cancel, () => actions.tell(() => controller.ask("runs/cancel", { id: run.id })));
		},
	};
}
