/** What the plugin does with a daemon, the scripted one and the real one alike. */

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";

import { afterEach, describe, expect, it } from "vitest";

import { clipboard } from "../fake/dom";
import { notices } from "../fake/obsidian";
import { Desk, freePort, isAlive, knock, squat, until, type DeskOptions } from "./desk";

const HOSTILE_NAME = `it's a "vault" – Notizen für März 笔记`;

/** `program`: the daemon's. */
export function describeSession(kind: "fake" | "real", program: string): void {
	describe(`with the ${kind} daemon`, () => session(program));
}

function session(program: string): void {
	let desk: Desk;

	function open(options: Partial<DeskOptions> = {}): Promise<Desk> {
		desk = new Desk({ program, ...options });
		return desk.open();
	}

	afterEach(async () => {
		clipboard.refuses = false;
		await desk.clear();
	});

	it("is off until a person turns it on, then serves, and is off again", async () => {
		await open();
		void desk.tab;
		expect(desk.text("Status")).toContain("Stopped.");
		expect(desk.app.fakeStatusBar.textContent).toBe("Sidecar off");
		desk.toggle("Enable server");
		await until("starting", () => desk.text("Status").includes("Starting..."));
		await desk.working();
		expect(desk.text("Status")).toMatch(/Running on 127\.0\.0\.1:\d+ · \d+ notes? indexed · sidecar \d+\.\d+\.\d+\./);
		expect(desk.app.fakeStatusBar.textContent).toMatch(/^Sidecar :\d+$/);
		const { pid, url } = desk;
		desk.toggle("Enable server");
		await until("stopped", () => desk.controller.view.phase === "stopped");
		expect(isAlive(pid)).toBe(false);
		await expect(knock(url, null)).rejects.toThrow();
	});

	it("shows the token for a moment, copies it, and a new one shuts out the old one at once", async () => {
		await open();
		await desk.turnOn();
		desk.click("Copy", desk.row("Access token"));
		const old = await until("token copied", () => clipboard.text.startsWith("vsc_") && clipboard.text);
		desk.click("Show for 30 s");
		await until("token shown", () => desk.text("Access token").includes(old));
		desk.click("Hide");
		expect(desk.text("Access token")).not.toContain(old);
		desk.click("Show for 30 s");
		await until("token shown again", () => desk.text("Access token").includes(old));
		expect(await knock(desk.url, old)).not.toBe(401);

		desk.click("Regenerate", desk.row("Access token"));
		desk.click("Cancel", document.querySelector(".modal") as ParentNode);
		expect(await knock(desk.url, old)).not.toBe(401);
		desk.click("Regenerate", desk.row("Access token"));
		desk.click("Regenerate", document.querySelector(".modal") as ParentNode);
		await until("notice", () => notices.some((text) => text.startsWith("New access token made.")));
		expect(await knock(desk.url, old)).toBe(401);
		expect(desk.text("Access token"), "what is dead is not shown").not.toContain(old);
		desk.click("Copy", desk.row("Access token"));
		const next = await until("new token copied", () => clipboard.text !== old && clipboard.text);
		expect(await knock(desk.url, next)).not.toBe(401);
	});

	it("L16: shows the command for Claude Code without the token and copies it with it, or a form without it", async () => {
		await open();
		await desk.turnOn();
		await until("command shown", () => desk.text("Claude Code").includes("<token>"));
		expect(desk.text("Claude Code")).not.toContain("vsc_");
		desk.click("Copy command");
		const command = await until("command copied", () => clipboard.text.includes("claude mcp add") && clipboard.text);
		const words = shellWords(command);
		expect(words.slice(0, 5)).toEqual(["claude", "mcp", "add", "--transport", "http"]);
		expect(words).toContain(desk.url);
		expect(command.trim()).not.toContain("\n");
		const header = words[words.indexOf("--header") + 1] ?? "";
		expect(await knock(desk.url, header.replace("Authorization: Bearer ", ""))).not.toBe(401);
		desk.click("Copy without token");
		const other = await until("other form", () => clipboard.text !== command && clipboard.text);
		expect(other).not.toContain("vsc_");
		desk.click("Copy JSON");
		const entry = await until("entry", () => clipboard.text.includes("mcpServers") && clipboard.text);
		expect(Object.values((JSON.parse(entry) as { mcpServers: object }).mcpServers)[0]).toMatchObject({ url: desk.url });
	});

	it("says that a client was refused, and why", async () => {
		await open();
		await desk.turnOn();
		expect(await knock(desk.url, "vsc_wrong")).toBe(401);
		await until("facts", () => desk.controller.view.phase === "working" && desk.controller.view.facts.refused?.reason === "wrong_token");
	});

	it("offers the next port if the pinned one is taken, and keeps it", async () => {
		await open();
		const port = await freePort();
		desk.controller.device.later({ port });
		const other = await squat(port);
		void desk.tab;
		desk.toggle("Enable server");
		await desk.failed("port");
		expect(desk.text("Status")).toContain(String(port));
		expect(desk.isOn("Enable server")).toBe(true);
		const button = await until("button", () => desk.row("Status").querySelector<HTMLButtonElement>("button"));
		expect(button.textContent).toMatch(/^Use port \d+$/);
		button.click();
		await desk.working();
		expect(desk.url).toContain(button.textContent?.replace("Use port ", "") ?? "none");
		await new Promise((resolve) => other.close(resolve));
	});

	it("moves to another port when a person says so, and takes no bad one", async () => {
		await open();
		await desk.turnOn();
		const before = desk.url;
		for (const bad of ["80", "70000", "24783.5", "x", ""]) {
			desk.type("Port", bad);
			expect(desk.text("Port")).toContain("Use a whole number from 1024 to 65535.");
		}
		expect(desk.url).toBe(before);
		const port = await freePort();
		desk.type("Port", String(port));
		await until("moved", () => desk.controller.view.phase === "working" && desk.url.includes(`:${port}/`));
		await desk.working();
	});

	it("changes settings live, and keeps those changed while it was off", async () => {
		await open();
		void desk.tab;
		desk.toggle("Allow writes");
		expect(desk.isOn("Allow writes")).toBe(true);
		await desk.turnOn();
		expect(desk.controller.settings.allowWrites).toBe(true);
		expect(desk.controller.device.pending).toEqual({});
		desk.toggle("Allow writes");
		await until("writes off", () => !desk.controller.settings.allowWrites);
		const { settings } = await desk.controller.ask("status", {});
		expect(settings?.allowWrites).toBe(false);
	});

	it("shows a killed child as an error with its button, and starts again by it", async () => {
		await open();
		await desk.turnOn();
		const { pid } = desk;
		process.kill(pid, "SIGKILL");
		await desk.failed("exited");
		expect(desk.text("Status")).toContain("The sidecar stopped by itself (signal SIGKILL)");
		expect(desk.isOn("Enable server")).toBe(true);
		desk.click("Try again");
		await desk.working();
		expect(desk.pid).not.toBe(pid);
	});

	it("leaves one child after nine quick flips and none after ten", async () => {
		await open();
		void desk.tab;
		const pids = new Set<number>();
		for (let flip = 0; flip < 9; flip += 1) desk.toggle("Enable server");
		await desk.working();
		pids.add(desk.pid);
		desk.toggle("Enable server");
		await until("stopped", () => desk.controller.view.phase === "stopped");
		for (const pid of pids) expect(isAlive(pid)).toBe(false);
	});

	it("D13: ends its child when it is unloaded, and when the app quits", async () => {
		await open();
		await desk.turnOn();
		const { pid } = desk;
		await desk.app.workspace.fakeQuit();
		expect(isAlive(pid)).toBe(false);
		expect(desk.controller.device.enabled).toBe(true);
	});

	it("resumes when the vault is opened again", async () => {
		await open();
		await desk.turnOn();
		await desk.close();
		await desk.open();
		await desk.working();
	});

	it("serves a vault whose path has spaces, quotes and other letters, and puts no path on the command line", async () => {
		await open({ vaultName: HOSTILE_NAME });
		await desk.turnOn();
		const line = readFileSync(`/proc/${desk.pid}/cmdline`, "utf8");
		expect(line).not.toContain(HOSTILE_NAME);
		expect(await knock(desk.url, null)).toBe(401);
	});

	it("L02, L14: keeps nothing secret and nothing of this computer where synchronisation carries it", async () => {
		await open();
		await desk.turnOn();
		desk.toggle("Allow writes");
		desk.toggle("Show in status bar");
		await until("kept", () => desk.data !== "");
		desk.click("Copy", desk.row("Access token"));
		const token = await until("token copied", () => clipboard.text.startsWith("vsc_") && clipboard.text);
		expect(JSON.parse(desk.data)).toEqual({ statusBar: false });
		for (const [, kept] of desk.app.fakeLocal) expect(kept).not.toContain(token);
		expect(readFileSync(`/proc/${desk.pid}/cmdline`, "utf8")).not.toContain(token);
		expect(readFileSync(`/proc/${desk.pid}/environ`, "utf8")).not.toContain(token);
		expect(desk.controller.log.join("\n")).not.toContain(token);
		desk.click("Copy without token");
		void desk.plugin;
	});

	it("can be switched on by no file that synchronisation brings", async () => {
		await open();
		desk.app.fakeData.set("vault-sidecar", JSON.stringify({ enabled: true, program: "/bin/sh", allowWrites: true, statusBar: true }));
		await desk.plugin.onExternalSettingsChange();
		await desk.close();
		await desk.open();
		expect(desk.controller.view.phase).toBe("stopped");
		expect(desk.controller.settings.allowWrites).toBe(false);
		expect(desk.controller.device.program).toBe(program);
	});

	it("offers in the palette what can be done now", async () => {
		await open();
		expect(desk.app.fakePalette()).toEqual(["Start server", "Open server status", "Copy diagnostics"]);
		desk.app.fakeRun("Start server");
		await desk.working();
		expect(desk.app.fakePalette()).toEqual(
			expect.arrayContaining(["Stop server", "Restart server", "Copy setup for Claude Code", "Regenerate access token", "Rebuild index"]),
		);
		expect(desk.app.fakePalette()).not.toContain("Start server");
		desk.app.fakeRun("Copy setup for Claude Code");
		await until("copied", () => clipboard.text.includes("claude mcp add"));
		desk.app.fakeRun("Rebuild index");
		await until("rebuilding", () => notices.includes("The index is being rebuilt."));
		await desk.working();
		desk.app.fakeRun("Restart server");
		await until("starting", () => desk.controller.view.phase === "starting");
		await desk.working();
		desk.app.fakeRun("Stop server");
		await until("stopped", () => desk.controller.view.phase === "stopped");
	});

	it("D14: leaves no process behind when the app is killed", async () => {
		await open();
		// a process of its own plays the app: it holds the pipe, and is killed
		const holder = spawn(process.execPath, ["-e", HOLDER, program, desk.vault], { stdio: ["ignore", "pipe", "inherit"], env: process.env });
		const said = await new Promise<string>((resolve) => holder.stdout.once("data", (data: Buffer) => resolve(String(data))));
		const child = Number(said);
		expect(isAlive(child), said).toBe(true);
		holder.kill("SIGKILL");
		await until("the child is gone", () => !isAlive(child));
	});
}

/** Starts the bridge, greets it, starts the daemon, says its pid, and then only holds the pipe. */
const HOLDER = `
const [program, vault] = process.argv.slice(1);
const child = require("node:child_process").spawn(program, ["bridge"], { stdio: ["pipe", "pipe", "ignore"] });
const say = (id, method, params) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\\n");
let heard = "";
child.stdout.on("data", (data) => {
	heard += data;
	const answer = heard.split("\\n").find((line) => /"id": ?2[,}]/.test(line));
	if (answer) { heard = ""; process.stdout.write(answer.includes('"result"') ? String(child.pid) : answer); }
});
say(1, "hello", { protocol: 1, plugin: "0.1.0", vault });
say(2, "start", {});
`;

/** The words of a command as a POSIX shell splits them. */
export function shellWords(command: string): string[] {
	const printed = execFileSync("/bin/sh", ["-c", `for word in ${command.trim()}; do printf '%s\\0' "$word"; done`]);
	return printed.toString().split("\0").slice(0, -1);
}
