/** Clients that propose and run agents, beside a person who decides: the real daemon, a stock client, a scripted provider. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, describe, expect, it } from "vitest";

import { notices } from "../fake/obsidian";
import { Desk, until } from "./desk";
import { Provider } from "./provider";

const PLAN = "# Plan\n\nThe pump comes in may.\nWater first.\n";
const BETTER = "# Plan\n\nThe pump comes in May.\nWater first.\n";

/** `program`: the daemon's. */
export function describeCompany(program: string): void {
	describe("proposals, with the real daemon", () => proposals(program));
	describe("agents, with the real daemon", () => agents(program));
}

/** Text of a tool's answer. */
interface Answer {
	text: string;
	isError: boolean;
}

class Stock {
	private constructor(private readonly client: Client) {}

	/** A stock client that has the access token. */
	static async of(desk: Desk): Promise<Stock> {
		const { token } = await desk.controller.ask("token/get", {});
		const client = new Client({ name: "stock", version: "1" });
		const headers = { Authorization: `Bearer ${token}` };
		await client.connect(new StreamableHTTPClientTransport(new URL(desk.url), { requestInit: { headers } }));
		return new Stock(client);
	}

	async call(name: string, args: Record<string, unknown>): Promise<Answer> {
		const { content, isError } = await this.client.callTool({ name, arguments: args });
		return { text: (content as { text: string }[])[0]?.text ?? "", isError: isError === true };
	}

	/** Propose the new text of a note; the proposal's id. */
	async propose(title: string, path: string, content: string): Promise<string> {
		const { text } = await this.call("kp_propose", { title, rationale: "It reads better so.", files: [{ path, content }] });
		return (JSON.parse(text) as { id: string }).id;
	}

	async tools(): Promise<string[]> {
		return (await this.client.listTools()).tools.map(({ name }) => name);
	}

	close(): Promise<void> {
		return this.client.close();
	}
}

function proposals(program: string): void {
	let desk: Desk;
	let stock: Stock;
	let modal: HTMLElement;

	async function open(): Promise<void> {
		desk = await new Desk({ program, notes: { "Plan.md": PLAN } }).open();
		await desk.turnOn();
		stock = await Stock.of(desk);
		desk.click("Review", desk.row("Proposed changes"));
		modal = await until("modal", () => document.querySelector<HTMLElement>(".modal"));
		await until("an empty list", () => modal.textContent?.includes("Nothing waits for review."));
	}

	const note = (path: string): string => readFileSync(join(desk.vault, path), "utf8");

	/** Open a proposal of the list. */
	async function review(title: string): Promise<string[]> {
		await until(title, () => modal.textContent?.includes(title) && modal.querySelector(".vault-sidecar-diff") === null);
		desk.click("Review", desk.row(title, modal));
		const diff = await until("diff", () => modal.querySelector(".vault-sidecar-diff"));
		return [...diff.children].map((line) => `${line.className.split("is-")[1]}: ${line.textContent}`);
	}

	afterEach(async () => {
		await stock.close();
		await desk.clear();
	});

	it("come up as a client makes them; one that is applied changes its note, one that is rejected changes nothing", async () => {
		await open();
		expect(await stock.tools()).not.toContain("write_note");
		await expect(stock.call("write_note", { path: "Plan.md", content: "mine" })).rejects.toThrow("Unknown tool");
		await stock.propose("Spell the month", "Plan.md", BETTER);
		const second = await stock.propose("Empty the house", "Home.md", "# Home\n");
		await until("told in the tab", () => desk.text("Proposed changes").includes("2 proposals wait for your review."));
		expect(await review("Spell the month")).toEqual([
			"file: Plan.md",
			"place: @@ -1,4 +1,4 @@",
			"same: # Plan",
			"same: \u00a0",
			"removed: The pump comes in may.",
			"added: The pump comes in May.",
			"same: Water first.",
		]);
		expect(modal.textContent).toContain("mcp:local · 1 file");
		expect(modal.textContent).toContain("This can be applied");
		expect(note("Plan.md")).toBe(PLAN);
		desk.click("Apply", modal);
		await until("applied", () => notices.includes("Applied: Spell the month."));
		expect(note("Plan.md")).toBe(BETTER);

		const home = note("Home.md");
		await review("Empty the house");
		(modal.querySelector("input") as HTMLInputElement).value = "We live there.";
		desk.click("Reject", modal);
		await until("rejected", () => notices.includes("Rejected: Empty the house."));
		expect(note("Home.md")).toBe(home);
		await until("none is left", () => modal.textContent?.includes("Nothing waits for review."));
		const { proposals: all } = await desk.controller.ask("proposals/list", { all: true });
		expect(all.find(({ id }) => id === second)?.resolution).toMatchObject({ by: "plugin", reason: "We live there." });
	});

	it("that are overtaken, or are not what was shown, change nothing", async () => {
		await open();
		desk.toggle("Allow writes");
		await until("write tool", async () => (await stock.tools()).includes("write_note"));
		await stock.propose("Spell the month", "Plan.md", BETTER);
		await review("Spell the month");
		// what is allowed to write does, between the look and the click
		const other = { path: "Plan.md", content: "Another plan.", mode: "overwrite" };
		expect((await stock.call("write_note", other)).isError).toBe(false);
		const written = note("Plan.md");
		expect(written).toContain("Another plan.");
		desk.click("Apply", modal);
		await until("refused", () => notices.some((text) => text.startsWith("Not applied, and marked as rejected: ")));
		expect(note("Plan.md")).toBe(written);

		const swapped = await stock.propose("Air the house", "Home.md", "# Home\n\nFresh air.\n");
		await review("Air the house");
		const patch = join(desk.vault, ".kp", "proposals", swapped, "changes.patch");
		writeFileSync(patch, readFileSync(patch, "utf8").replace("Fresh air.", "Stale air."));
		const home = note("Home.md");
		desk.click("Apply", modal);
		await until("not what was shown", () => notices.some((text) => text.endsWith("Look at it again.")));
		expect(note("Home.md")).toBe(home);

		writeFileSync(join(desk.vault, "Home.md"), "# Home\n\nSomebody was faster.\n");
		desk.click("Back", modal);
		await review("Air the house");
		expect(modal.textContent).toContain("This can't be applied now: ");
		expect(desk.button("Apply", modal).disabled).toBe(true);
	});
}

function agents(program: string): void {
	let desk: Desk;
	let stock: Stock;
	let provider: Provider;

	async function open(tools: string): Promise<void> {
		provider = await Provider.open();
		const persona = `---\nname: Scout\nemoji: 🔭\ndescription: Finds notes.\nmodel: scripted\ntools: ${tools}\n---\nYou look through a vault.\n`;
		desk = await new Desk({ program, notes: { "Agents/Scout.md": persona, "Agents/Mute.md": "---\nname: Mute\n---\n" } }).open();
		void desk.tab;
		desk.row("Agents").click();
		const choice = desk.page.querySelector("select");
		if (choice === null) throw new Error("no choice of providers");
		choice.value = "openai";
		choice.dispatchEvent(new Event("change"));
		desk.type("Address", provider.url);
		await desk.turnOn();
		stock = await Stock.of(desk);
		await until("agents", () => desk.text("Agents").includes("0 of 2 can be run by clients"));
		desk.row("Agents").click();
	}

	const run = (task: string): Promise<Answer> => stock.call("run_agent", { name: "Scout", task });

	async function allow(on: boolean): Promise<void> {
		desk.toggle("🔭 Scout");
		const { controller } = desk;
		await until("the gate", async () => (await controller.ask("agents/list", {})).agents.find(({ name }) => name === "Scout")?.remote === on);
	}

	afterEach(async () => {
		await stock.close();
		await desk.clear();
		await provider.close();
	});

	it("are run by a client once a person allows it; runs, refusals and failures are listed", async () => {
		await open("read_note");
		expect(desk.text("Mute")).toContain("No persona.");
		expect(desk.row("Mute").querySelector(".checkbox-container")?.classList.contains("is-disabled")).toBe(true);
		const refused = await run("Too early?");
		expect(refused).toMatchObject({ isError: true, text: expect.stringContaining("may not be run by clients") as string });
		expect(await provider.asked()).toEqual([]);

		await allow(true);
		await provider.plays(["use", "read_note", { path: "Home.md" }], ["say", "A heat pump."]);
		expect(await run("What warms the house?")).toEqual({ isError: false, text: "A heat pump." });
		await until("notice", () => notices.some((text) => text.endsWith(" ran Scout: done.")));
		await until("both records", () => runs().length === 2 && /^ScoutWhat warms the house\?Done · .* · 26 tokens · /.test(runs()[0] ?? ""));
		expect(runs()[1]).toMatch(/^ScoutToo early\?Refused · .*may not be run by clients/);
		const [first, second] = await provider.asked();
		expect(first?.said).toEqual([["user", "What warms the house?"]]);
		expect(second?.results).toEqual([[expect.stringContaining("A heat pump."), false]]);

		await provider.plays(["fail", 401, "invalid key"]);
		await expect(desk.plugin.api.runAgent("Scout", "Again?", { client: "dataview" })).rejects.toThrow("the provider answered 401");
		await until("the failure", () => /^ScoutAgain\?Failed · .* · dataview .*401/.test(runs()[0] ?? ""));
		await until("its notice", () => notices.includes("dataview ran Scout: failed."));

		await allow(false);
		expect((await run("And now?")).text).toContain("may not be run by clients");
		expect(await provider.asked()).toHaveLength(1);
	});

	it("write only while writes are allowed, and end when a person says so", async () => {
		await open("read_note, write_note");
		await allow(true);
		const writes = ["use", "write_note", { path: "New.md", content: "Written by Scout." }] as const;
		await provider.plays([...writes], ["say", "I could not."]);
		expect((await run("Write it down.")).text).toBe("I could not.");
		const [offered, told] = await provider.asked();
		expect(offered?.tools).toEqual(["read_note"]);
		expect(told?.results).toEqual([["There is no such tool now.", true]]);
		expect(() => readFileSync(join(desk.vault, "New.md"))).toThrow("ENOENT");

		desk.app.fakeOpenTab("vault-sidecar");
		desk.toggle("Allow writes");
		await until("writes on", () => desk.controller.settings.allowWrites);
		await provider.plays([...writes], ["say", "It is written."]);
		expect((await run("Write it down now.")).text).toBe("It is written.");
		expect(readFileSync(join(desk.vault, "New.md"), "utf8")).toContain("Written by Scout.");

		desk.row("Agents").click();
		await provider.plays(["hang"]);
		const answer = run("Take your time.");
		await until("asked", async () => (await provider.asked()).length > 0);
		desk.page.querySelector<HTMLElement>(".extra-setting-button")?.click();
		await until("running", () => (runs()[0] ?? "").startsWith("ScoutTake your time.Running · "));
		desk.click("Cancel");
		expect(await answer).toEqual({ isError: true, text: "'Scout' was cancelled." });
		await until("recorded", () => (runs()[0] ?? "").startsWith("ScoutTake your time.Cancelled · "));
	});

	/** Texts of the recent runs, the newest first. */
	function runs(): string[] {
		return [...desk.page.querySelectorAll(".vault-sidecar-run")].map((row) => row.querySelector(".setting-item-info")?.textContent ?? "");
	}
}
