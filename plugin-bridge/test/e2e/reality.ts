/** What only a real daemon can show: clients, other daemons, the vault's own index. */

import { execFile, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterEach, describe, expect, it } from "vitest";

import { clipboard } from "../fake/dom";
import { Desk, isAlive, until } from "./desk";
import { shellWords } from "./suite";

const run = promisify(execFile);

/** `program`: the daemon's. */
export function describeReal(program: string): void {
	describe("with the real daemon alone", () => reality(program));
}

function reality(program: string): void {
	let desk: Desk;

	async function openOn(): Promise<void> {
		desk = new Desk({ program, notes: { "Heating.md": "# Heating\n\nThe pump hums at night.\n" } });
		await desk.open();
		await desk.turnOn();
	}

	/** The program in a terminal; what it prints. */
	async function terminal(...words: string[]): Promise<string> {
		const { stdout } = await run(program, [...words, "--vault", desk.vault], { env: process.env });
		return stdout.trim();
	}

	afterEach(() => desk.clear());

	it("the copied command, split by a shell, lets a stock client in", async () => {
		await openOn();
		desk.click("Copy command");
		const words = shellWords(await until("command", () => clipboard.text.includes("claude mcp add") && clipboard.text));
		const [name, value] = (words[words.indexOf("--header") + 1] ?? "").split(": ");
		const url = words.find((word) => word.startsWith("http://"));
		const client = new Client({ name: "stock", version: "1" });
		const headers = { [name ?? ""]: value ?? "" };
		await client.connect(new StreamableHTTPClientTransport(new URL(url ?? ""), { requestInit: { headers } }));
		const { tools } = await client.listTools();
		expect(tools.map((tool) => tool.name)).toContain("read_note");
		expect(tools.map((tool) => tool.name)).not.toContain("write_note");
		desk.toggle("Allow writes");
		await until("write tool", async () => (await client.listTools()).tools.some((tool) => tool.name === "write_note"));
		await client.close();
	});

	it("a note that is saved is found through it", async () => {
		await openOn();
		writeFileSync(join(desk.vault, "Cellar.md"), "# Cellar\n\nOld zanzibars lie there.\n");
		await until("found", async () => (await terminal("search", "zanzibars")).includes("Cellar.md"));
	});

	it("a token that a terminal replaces is told, and the old one is dead", async () => {
		await openOn();
		desk.click("Copy", desk.row("Access token"));
		const old = await until("copied", () => clipboard.text.startsWith("vsc_") && clipboard.text);
		const next = await terminal("token", "rotate");
		expect(next).not.toBe(old);
		desk.click("Copy", desk.row("Access token"));
		await until("the new one", () => clipboard.text === next);
	});

	it("writes that a terminal allows show in the tab", async () => {
		await openOn();
		expect(desk.isOn("Allow writes")).toBe(false);
		await terminal("writes", "on");
		await until("shown", () => desk.isOn("Allow writes"));
	});

	it("a second window takes over; the first one says so and does not start by itself", async () => {
		await openOn();
		const first = desk;
		const second = new Desk({ program, isSecond: true });
		// the same vault, in another window: the storage of the device is one, the plugin is not
		Object.assign(second, { vault: first.vault });
		process.env["VAULT_SIDECAR_STATE"] = first.state;
		second.app.vault.adapter.getBasePath = () => first.vault;
		await second.open();
		try {
			void second.controller.setEnabled(true);
			await second.working();
			await first.failed("taken-over");
			expect(first.isOn("Enable server")).toBe(true);
			expect(second.controller.isWorking).toBe(true);
			await second.close();
			desk.click("Try again", first.row("Status"));
			await first.working();
		} finally {
			await second.clear();
		}
	});

	it("a daemon that a stdio client started makes way, and the client goes on", async () => {
		desk = new Desk({ program });
		const env = process.env as Record<string, string>;
		const client = new Client({ name: "stock", version: "1" });
		await client.connect(new StdioClientTransport({ command: program, args: ["mcp", "--vault", desk.vault], env, stderr: "ignore" }));
		expect((await client.listTools()).tools.length).toBeGreaterThan(3);
		const { pid } = JSON.parse(await terminal("status", "--json")) as { pid: number };
		await desk.open();
		await desk.turnOn();
		expect(desk.pid).not.toBe(pid);
		await until("the other is gone", () => !isAlive(pid));
		const answer = await client.callTool({ name: "list_notes", arguments: {} });
		expect(JSON.stringify(answer)).toContain("Home.md");
		await client.close();
	});

	it("a daemon that a person started stays, and the tab says who has the vault", async () => {
		desk = new Desk({ program });
		const served = spawn(program, ["serve", "--vault", desk.vault, "--port", "0"], { stdio: ["ignore", "pipe", "ignore"], env: process.env });
		await new Promise((resolve) => served.stdout.once("data", resolve));
		await desk.open();
		void desk.tab;
		desk.toggle("Enable server");
		await desk.failed("already-running");
		expect(isAlive(served.pid ?? 0)).toBe(true);
		served.kill("SIGTERM");
		await new Promise((resolve) => served.once("exit", resolve));
		desk.click("Try again");
		await desk.working();
	});

	it("after its end no endpoint, no process and no change in the vault is left", async () => {
		await openOn();
		const { pid, state } = desk;
		const before = readFileSync(join(desk.vault, "Home.md"), "utf8");
		const endpoints = (): string[] => readdirSync(state).filter((name) => existsSync(join(state, name, "endpoint.json")));
		expect(endpoints()).toHaveLength(1);
		process.kill(pid, "SIGTERM");
		await until("error", () => desk.controller.view.phase === "error");
		expect(isAlive(pid)).toBe(false);
		expect(readFileSync(join(desk.vault, "Home.md"), "utf8")).toBe(before);
		expect(endpoints()).toEqual([]);
	});
}
