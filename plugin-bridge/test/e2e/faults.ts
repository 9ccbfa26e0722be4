/** Faults that the real daemon does not have, and the parts that need no real index. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import Ajv2020 from "ajv/dist/2020";
import { afterEach, describe, expect, it } from "vitest";

import { clipboard } from "../fake/dom";
import { notices } from "../fake/obsidian";
import { Desk, FAKE, isAlive, script, until, type DeskOptions } from "./desk";

const schema = JSON.parse(readFileSync(new URL("../../../sidecar/bridge/pipe-protocol.schema.json", import.meta.url), "utf8")) as object;

export function describeFaults(): void {
	describe("with the scripted daemon", faults);
}

function faults(): void {
	let desk: Desk;

	async function open(odd: object = {}, options: Partial<DeskOptions> = {}): Promise<void> {
		desk = new Desk({ program: FAKE, odd, ...options });
		await desk.open();
		void desk.tab;
	}

	async function openOn(odd: object = {}): Promise<void> {
		await open(odd);
		await desk.turnOn();
	}

	/** Turn it on and expect an error. */
	async function failing(code: string, odd: object, options: Partial<DeskOptions> = {}): Promise<void> {
		await open(odd, options);
		desk.toggle("Enable server");
		await desk.failed(code);
	}

	afterEach(() => desk.clear());

	describe("what can go wrong", () => {
		it.each([
			[7, "The sidecar speaks protocol 7; this plugin needs 1. Update the plugin.", null],
			[0, "The sidecar speaks protocol 0; this plugin needs 1. Update the sidecar.", "Copy command"],
		])("a daemon of protocol %i is not used", async (protocol, words, button) => {
			await failing("protocol", { protocol });
			expect(statusText()).toBe(words);
			expect(statusButton()?.textContent ?? null).toBe(button);
		});

		it("a daemon that is too old is not used", async () => {
			await failing("too-old", { version: "0.0.9" });
			expect(statusText()).toBe("The sidecar is 0.0.9; this plugin needs 0.1.0 or newer. Upgrade it, then try again.");
			desk.click("Copy command");
			await until("copied", () => clipboard.text === "uv tool upgrade vault-sidecar");
		});

		it("a program that is not there is named, with a way to clear the path", async () => {
			await failing("bad-path", {}, { program: "/nowhere/vault-sidecar" });
			expect(statusText()).toContain("No program at /nowhere/vault-sidecar.");
			desk.click("Clear path");
			await until("cleared", () => desk.controller.device.program === "");
			expect(desk.row("Sidecar program").querySelector("input")?.value).toBe("");
		});

		it("a folder, a file that may not run and a path that is not whole are told apart", async () => {
			await open();
			const bad = join(desk.root, "folder");
			mkdirSync(bad);
			desk.toggle("Enable server");
			await desk.working();
			for (const [path, words] of [
				[bad, "is a folder."],
				[join(desk.vault, "Home.md"), "is not allowed to run."],
				["vault-sidecar", "vault-sidecar is not a whole path."],
			] as const) {
				desk.type("Sidecar program", path);
				await until(words, () => statusText().includes(words));
			}
			desk.type("Sidecar program", FAKE);
			await desk.working();
		});

		it("a program that can't be started says what the system said", async () => {
			await open({}, { program: "" });
			desk.controller.device.program = script(join(desk.root, "broken"), "#!/nowhere/python\n");
			desk.toggle("Enable server");
			await desk.failed("bad-path");
			expect(statusText()).toContain("The system refused to start the program (ENOENT).");
		});

		it("a daemon that refuses says why in its own words, and the toggle stays on", async () => {
			const data = { code: "already-running", reason: "Another sidecar serves this vault (pid 1234).", fix: "Stop it, or go on using it." };
			await failing("already-running", { refuse: { start: data } });
			expect(statusText()).toBe("Another sidecar serves this vault (pid 1234). Stop it, or go on using it.");
			expect(desk.isOn("Enable server")).toBe(true);
			expect(desk.app.fakeStatusBar.textContent).toBe("Sidecar error");
			desk.toggle("Enable server");
			await until("stopped", () => desk.controller.view.phase === "stopped");
		});

		it("a daemon that ends right after the start is shown with its last line", async () => {
			await failing("exited", { exit: 1, last_words: "the disk is full" });
			expect(statusText()).toContain("The sidecar stopped by itself (code 1): the disk is full.");
		});

		it("lines on stdout that are no messages go to the log", async () => {
			await openOn({ noise: ["Loading weights: 100%", '{"not": "rpc"}', "{broken", "\u00fcber 笔记"] });
			expect(desk.controller.log).toEqual(expect.arrayContaining(["Loading weights: 100%", "{broken", "\u00fcber 笔记"]));
			desk.row("Open log").click();
			expect(document.querySelector(".modal")?.textContent).toContain("{broken\n\u00fcber 笔记");
		});

		it("a grandchild that holds the pipe does not delay the end", async () => {
			await openOn({ linger: true });
			const { pid } = desk;
			desk.toggle("Enable server");
			await until("stopped", () => desk.controller.view.phase === "stopped");
			expect(isAlive(pid)).toBe(false);
		});

		it("a daemon that does not end when told is killed", async () => {
			await openOn({ deaf: true });
			const { pid } = desk;
			desk.toggle("Enable server");
			await until("stopped", () => desk.controller.view.phase === "stopped");
			expect(isAlive(pid)).toBe(false);
		});

		it("a start that hangs can be turned off", async () => {
			await open({ mute: ["start"] });
			desk.toggle("Enable server");
			await until("greeted", () => desk.controller.view.phase === "starting" && desk.pid);
			const { pid } = desk;
			desk.toggle("Enable server");
			await until("stopped", () => desk.controller.view.phase === "stopped");
			expect(isAlive(pid)).toBe(false);
		});

		it("the index shows how far it is, and notes that it left out", async () => {
			const problem = { code: "index", reason: "Some notes could not be indexed: 3 of 40.", fix: "Search works for the rest." };
			await open({ steps: 8, hold: "go", problem });
			desk.toggle("Enable server");
			await until("a bar", () => desk.row("Status").querySelector(".setting-progress-bar"));
			expect(statusText()).toMatch(/Indexing \d+% \(\d+ of 40 notes\)\. Clients can connect; search gets complete as this goes on\./);
			expect(desk.app.fakeStatusBar.textContent).toMatch(/^Sidecar indexing \d+%$/);
			writeFileSync(join(desk.state, "go"), "");
			await desk.working();
			expect(statusText()).toContain("Some notes could not be indexed: 3 of 40. Search works for the rest.");
			desk.click("Show them");
			const modal = await until("list", () => document.querySelector(".modal"));
			expect(modal.textContent).toContain("Big.md");
			expect(modal.textContent).toContain("And 2 more.");
		});

		it("an index that got on before the first answer came is shown as it told last", async () => {
			await openOn({ overtaken: true });
			expect(statusText()).toContain("40 notes indexed");
		});

		it("a clipboard that refuses is told", async () => {
			await openOn();
			clipboard.refuses = true;
			desk.click("Copy", desk.row("Access token"));
			await until("notice", () => notices.includes("The clipboard can't be written to."));
			clipboard.refuses = false;
		});

		it("a setting that the daemon refuses goes back, with its words", async () => {
			const data = { code: "overridden", reason: "Allow writes comes from the environment.", fix: "Change it there." };
			await openOn({ refuse: { "settings/set": data } });
			desk.toggle("Allow writes");
			await until("notice", () => notices.includes("Allow writes comes from the environment. Change it there."));
			expect(desk.isOn("Allow writes")).toBe(false);
		});
	});

	it("a token that comes after the tab was closed is not shown when it is opened again", async () => {
		await openOn();
		desk.click("Show for 30 s");
		desk.app.fakeTabs.get("vault-sidecar")?.hide();
		const { token } = await desk.controller.ask("token/get", {}); // answered after the other one
		void desk.tab;
		expect(desk.text("Access token")).not.toContain(token);
	});

	it("a torn data.json keeps nothing from loading", async () => {
		desk = new Desk({ program: FAKE });
		desk.app.fakeData.set("vault-sidecar", '{"statusBar": fal');
		await desk.open();
		expect(desk.app.fakeStatusBar.textContent).toBe("Sidecar off");
	});

	/** How often the plugin has asked for something so far. */
	function asked(method: string): number {
		const lines = readFileSync(join(desk.state, "fake.log"), "utf8").trim().split("\n");
		return lines.filter((line) => (JSON.parse(line) as { method: string }).method === method).length;
	}

	describe("agents", () => {
		function openPage(): void {
			desk.row("Agents").click();
		}

		it("are listed with their problems; one is allowed, run through the API, and noticed", async () => {
			await openOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2 can be run by clients"));
			openPage();
			expect(desk.text("Editor")).toContain("No persona.");
			await expect(desk.plugin.api.runAgent("Scout", "Find heating.")).rejects.toThrow("may not be run");
			desk.toggle("🔭 Scout");
			await until("allowed", async () => (await desk.plugin.api.listAgents()).find(({ name }) => name === "Scout")?.remote);
			const answer = await desk.plugin.api.runAgent("Scout", "Find heating.", { client: "other-plugin" });
			expect(answer).toBe("An answer to: Find heating.");
			await until("notice", () => notices.includes("other-plugin ran Scout: done."));
			await until("record", () => desk.page.textContent?.includes("Done · 9 s · 4,312 tokens · other-plugin"));
		});

		it("no longer say that a key is missing once one is chosen", async () => {
			await open();
			desk.app.secretStorage.setSecret("claude-key", "sk-very-secret-1234");
			desk.controller.device.later({ provider: "anthropic" });
			await desk.turnOn();
			openPage();
			await until("missing", () => desk.text("API key").includes("There is no key for anthropic yet."));
			const select = desk.row("API key").querySelector("select");
			if (select === null) throw new Error("no choice");
			select.value = "claude-key";
			select.dispatchEvent(new Event("change"));
			await until("there", () => !desk.text("API key").includes("There is no key"));
		});

		it("say so where there are none, and where nobody pays", async () => {
			await openOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2"));
			openPage();
			expect(desk.page.textContent).toContain("No agent has been run by a client yet.");
			expect(desk.text("API key")).toContain("There is no key for anthropic yet.");
		});

		it("get the provider's key over the pipe alone", async () => {
			await open();
			desk.app.secretStorage.setSecret("claude-key", "sk-very-secret-1234");
			desk.controller.device.later({ provider: "anthropic" });
			desk.row("Agents").click();
			const select = desk.row("API key").querySelector("select");
			if (select === null) throw new Error("no choice");
			select.value = "claude-key";
			select.dispatchEvent(new Event("change"));
			desk.app.fakeOpenTab("vault-sidecar");
			await desk.turnOn();
			const said = readFileSync(join(desk.state, "fake.log"), "utf8");
			expect(said).toContain("sk-very-secret-1234");
			for (const [, kept] of desk.app.fakeLocal) expect(kept).not.toContain("sk-very");
			expect(readFileSync(`/proc/${desk.pid}/cmdline`, "utf8") + readFileSync(`/proc/${desk.pid}/environ`, "utf8")).not.toContain("sk-very");
			desk.app.fakeRun("Copy diagnostics");
			await until("diagnostics", () => clipboard.text.startsWith("plugin "));
			expect(clipboard.text).not.toContain("sk-very");
		});

		it("are shown as they are, though an older answer comes late", async () => {
			await openOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2"));
			openPage();
			const { controller } = desk;
			const ask = controller.ask.bind(controller);
			let release: () => void = () => undefined;
			const held = new Promise<void>((resolve) => (release = resolve));
			let lists = 0;
			controller.ask = (async (method: "agents/list", params: Record<string, never>) => {
				const answer = await ask(method, params);
				if (method === "agents/list" && (lists += 1) === 1) await held;
				return answer;
			}) as typeof ask;
			desk.page.querySelector<HTMLElement>(".extra-setting-button")?.click();
			await until("the first answer", () => lists === 1);
			desk.toggle("🔭 Scout"); // and the daemon says that agents have changed
			await until("allowed", async () => (await ask("agents/list", {})).agents.find(({ name }) => name === "Scout")?.remote);
			await ask("status", {});
			release();
			for (let turn = 0; turn < 10; turn += 1) await ask("status", {}); // two rounds of three questions end before
			expect(lists).toBe(2);
			desk.app.fakeOpenTab("vault-sidecar"); // draws what is known
			expect(desk.text("Agents")).toContain("1 of 2 can be run by clients");
		});

		it("stay as they are if the gate is refused, and that is said once", async () => {
			const data = { code: "disk", reason: "The gates can't be written.", fix: "" };
			await openOn({ refuse: { "agents/setRemote": data } });
			await until("agents", () => desk.text("Agents").includes("0 of 2"));
			openPage();
			desk.toggle("🔭 Scout");
			await until("back", () => notices.includes("The gates can't be written.") && !desk.isOn("🔭 Scout"));
			await desk.controller.ask("status", {});
			expect(asked("agents/setRemote")).toBe(1);
		});

		it("can't be switched while the server is off", async () => {
			await openOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2"));
			desk.toggle("Enable server");
			await until("stopped", () => desk.controller.view.phase === "stopped");
			openPage();
			desk.toggle("🔭 Scout");
			expect(desk.isOn("🔭 Scout")).toBe(false);
			expect(notices).toEqual([]);
		});

		it("show a provider that config.toml names, and an address that is refused as often as it is tried", async () => {
			const data = { code: "config", reason: "The address must be https.", fix: "" };
			await open({ refuse: { "settings/set": data } });
			desk.controller.device.later({ provider: "cellar" as "openai" });
			await desk.turnOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2")); // they come once, and draw the tab anew
			openPage();
			expect(desk.page.querySelector("select")?.value).toBe("cellar");
			for (const times of [1, 2]) {
				desk.type("Address", "http://example.com");
				await until("refused", () => asked("settings/set") === times && desk.text("Address").includes("must be https"));
			}
		});

		it("are cancelled by a command, which says how many there were", async () => {
			await openOn();
			desk.app.fakeRun("Cancel running agents");
			await until("notice", () => notices.includes("No agent is running."));
		});

		it("must be in a folder that is there", async () => {
			await openOn();
			await until("agents", () => desk.text("Agents").includes("0 of 2"));
			openPage();
			expect(desk.text("Agents folder"), "the usual one need not be there").not.toContain("There is no folder");
			const input = desk.row("Agents folder").querySelector("input");
			if (input === null) throw new Error("no field");
			for (const [path, wrong] of [["Nowhere", true], ["Team", false]] as const) {
				if (!wrong) mkdirSync(join(desk.vault, path));
				input.value = path;
				input.dispatchEvent(new Event("input"));
				await until(path, () => desk.text("Agents folder").includes("There is no folder") === wrong);
			}
			await until("kept", () => desk.controller.settings.agentsFolder === "Team");
		});
	});

	describe("proposals", () => {
		async function review(): Promise<HTMLElement> {
			await openOn();
			await until("two wait", () => desk.text("Proposed changes").includes("2 proposals wait for your review."));
			desk.click("Review", desk.row("Proposed changes"));
			return until("modal", () => document.querySelector<HTMLElement>(".modal"));
		}

		it("are listed, shown with every letter of their changes, and applied", async () => {
			const modal = await review();
			await until("list", () => modal.textContent?.includes("Tidy the plan"));
			desk.click("Review", desk.row("Tidy the plan", modal));
			const diff = await until("diff", () => modal.querySelector(".vault-sidecar-diff"));
			expect([...diff.children].map((line) => `${line.className.split("is-")[1]}: ${line.textContent}`)).toEqual([
				"file: Projects/Plan.md",
				"place: @@ -1,4 +1,4 @@",
				"same: # Plan",
				"removed: The pump comes in may.",
				"added: The pump comes in May.",
				"added: Ask about the ⟨U+202E⟩tank.",
				"same: Water first.",
				"removed: -- not a file name",
			]);
			desk.click("Apply", modal);
			expect(desk.button("Apply", modal).disabled, "a second click does nothing").toBe(true);
			await until("applied", () => notices.includes("Applied: Tidy the plan."));
			await until("one left", () => desk.text("Proposed changes").includes("1 proposal waits for your review."));
			await until("the list without it", () => !modal.textContent?.includes("Tidy the plan"));
		});

		it("are listed anew when one is decided on elsewhere, and what is being read stays", async () => {
			const modal = await review();
			await until("list", () => modal.textContent?.includes("Tidy the plan"));
			await desk.controller.ask("proposals/reject", { id: "01KB0000000000000000000A02" });
			await until("one left", () => modal.textContent?.includes("Tidy the plan") && !modal.textContent.includes("heating"));
			const lists = asked("proposals/list");
			desk.click("Review", desk.row("Tidy the plan", modal));
			await desk.controller.ask("proposals/reject", { id: "01KB0000000000000000000A01" });
			await until("diff", () => modal.querySelector(".vault-sidecar-diff"));
			desk.click("Apply", modal);
			await until("refused", () => notices.includes("It is settled already."));
			expect(asked("proposals/list")).toBe(lists);
			expect(desk.button("Reject", modal).disabled).toBe(false);
		});

		it("are not asked for any more once the window is closed, though it was closed in the middle of applying", async () => {
			const modal = await review();
			await until("list", () => modal.textContent?.includes("Tidy the plan"));
			desk.click("Review", desk.row("Tidy the plan", modal));
			await until("diff", () => modal.querySelector(".vault-sidecar-diff"));
			const lists = asked("proposals/list");
			desk.click("Apply", modal);
			modal.querySelector<HTMLElement>(".modal-close-button")?.click();
			await until("applied", () => notices.includes("Applied: Tidy the plan."));
			await desk.controller.ask("proposals/reject", { id: "01KB0000000000000000000A02" });
			await desk.controller.ask("status", {});
			expect(asked("proposals/list")).toBe(lists);
		});

		it("that can't be applied say why, and are rejected with a reason", async () => {
			const modal = await review();
			await until("list", () => modal.textContent?.includes("Add a note"));
			desk.click("Review", desk.row("Add a note on heating", modal));
			await until("why", () => modal.textContent?.includes("This can't be applied now: 'Heating.md' is there already."));
			expect(modal.textContent).toContain("Heating.md (new)");
			expect(desk.button("Apply", modal).disabled).toBe(true);
			desk.click("Back", modal);
			await until("list again", () => modal.textContent?.includes("Tidy the plan"));
			desk.click("Review", desk.row("Add a note on heating", modal));
			await until("shown again", () => modal.querySelector("input"));
			(modal.querySelector("input") as HTMLInputElement).value = "We have one.";
			desk.click("Reject", modal);
			await until("rejected", () => notices.includes("Rejected: Add a note on heating."));
			expect(readFileSync(join(desk.state, "fake.log"), "utf8")).toContain('"reason":"We have one."');
		});
	});

	it("every line that the plugin says fits the schema", async () => {
		await openOn();
		desk.toggle("Allow writes");
		desk.toggle("Knowledge tools");
		desk.click("Copy command");
		desk.click("Copy stdio JSON");
		await until("entry", () => clipboard.text.includes("mcpServers"));
		await desk.plugin.api.runAgent("Scout", "Find.", { maxTurns: 3 }).catch(() => undefined);
		desk.app.fakeRun("Rebuild index");
		await until("rebuilt", () => notices.includes("The index is being rebuilt."));
		const validate = new Ajv2020({ strict: false }).compile(schema);
		const lines = readFileSync(join(desk.state, "fake.log"), "utf8").trim().split("\n");
		expect(lines.length).toBeGreaterThan(10);
		for (const line of lines) {
			expect(validate(JSON.parse(line)), `${line}: ${JSON.stringify(validate.errors)}`).toBe(true);
		}
		expect(validate({ jsonrpc: "2.0", id: 1, method: "start", params: { port: 1 } })).toBe(false);
	});

	function statusText(): string {
		const row = desk.row("Status").querySelector(".setting-item-description");
		return [...(row?.children ?? [])].map((line) => line.textContent).join(" ");
	}

	function statusButton(): Element | null {
		return desk.row("Status").querySelector("button");
	}
}
