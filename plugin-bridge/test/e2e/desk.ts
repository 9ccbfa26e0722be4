/** A person's desk for one test: a vault, a state folder, the app with the plugin, and hands to work with. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type SidecarPlugin from "../../src/main";
import type { Controller } from "../../src/controller";
import { clipboard } from "../fake/dom";
import { manifest, pluginClass } from "../fake/load";
import { FakeApp, notices } from "../fake/obsidian";

export const FAKE = fileURLToPath(new URL("../fake/sidecar.py", import.meta.url));
const VENV = fileURLToPath(new URL("../../../.venv/bin/vault-sidecar", import.meta.url));
/** The real program: of this checkout, or the one that VAULT_SIDECAR_PROGRAM names. */
export const REAL = process.env["VAULT_SIDECAR_PROGRAM"] ?? VENV;

/** Wait until `seen` gives something; fails with `what` after a while that no sound run needs. */
export async function until<T>(what: string | (() => string), seen: () => T | Promise<T>, withinMs = 60_000): Promise<Exclude<T, false | null | undefined>> {
	const end = Date.now() + withinMs;
	for (;;) {
		const value = await seen();
		if (value !== null && value !== undefined && value !== false) return value as Exclude<T, false | null | undefined>;
		if (Date.now() > end) throw new Error(`it never came to: ${typeof what === "string" ? what : what()}`);
		await new Promise((resolve) => setTimeout(resolve, 15));
	}
}

export interface DeskOptions {
	program: string;
	/** What is odd about the fake today. */
	odd?: object;
	vaultName?: string;
	/** A second window on a vault that has a port already. */
	isSecond?: boolean;
	/** Path of a note to its text. */
	notes?: Record<string, string>;
}

export class Desk {
	readonly root: string;
	readonly vault: string;
	readonly state: string;
	readonly app: FakeApp;
	plugin!: SidecarPlugin;
	private isOpen = false;

	constructor(readonly options: DeskOptions) {
		clipboard.text = "";
		this.root = mkdtempSync(join(tmpdir(), "vault-sidecar-plugin-"));
		this.vault = join(this.root, options.vaultName ?? "vault");
		this.state = join(this.root, "state");
		for (const [path, text] of Object.entries({ "Home.md": "# Home\n\nA heat pump.\n", ...options.notes })) {
			mkdirSync(dirname(join(this.vault, path)), { recursive: true });
			writeFileSync(join(this.vault, path), text);
		}
		this.setEnvironment();
		this.app = new FakeApp(this.vault, (path) => existsSync(join(this.vault, path)));
	}

	/** The child inherits the environment, as in the app. */
	private setEnvironment(): void {
		process.env["VAULT_SIDECAR_STATE"] = this.state;
		process.env["FAKE_SIDECAR"] = JSON.stringify(this.options.odd ?? {});
		process.env["VAULT_SIDECAR_INDEX_EMBEDDER"] = "hash"; // the model is not what is tested here
		process.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"; // nobody's real keyring
	}

	/** The app starts, and the plugin with it. */
	async open(): Promise<this> {
		const Plugin = await pluginClass();
		if (this.app.loadLocalStorage("vault-sidecar") === null) {
			// a port of its own: those that new vaults get are wanted by every daemon of every test
			const pending = this.options.isSecond === true ? {} : { port: await freePort() };
			this.app.saveLocalStorage("vault-sidecar", { program: this.options.program, pending });
		}
		this.plugin = new Plugin(this.app, manifest);
		await this.plugin.onload();
		this.app.workspace.fakeLayoutReady();
		this.isOpen = true;
		return this;
	}

	get controller(): Controller {
		return (this.plugin as unknown as { controller: Controller }).controller;
	}

	get pid(): number {
		return (this.controller as unknown as { session: { bridge: { pid: number } } }).session.bridge.pid;
	}

	/** The tab, opened. */
	get tab(): HTMLElement {
		return this.app.fakeOpenTab(manifest.id).containerEl;
	}

	get page(): HTMLElement {
		return document.body;
	}

	row(name: string, within: ParentNode = this.page): HTMLElement {
		const rows = [...within.querySelectorAll<HTMLElement>(".setting-item")];
		const found = rows.find((row) => row.querySelector(".setting-item-name")?.textContent === name);
		if (found === undefined) throw new Error(`no row ${name} among ${rows.map((row) => row.textContent).join(" | ")}`);
		return found;
	}

	/** Text of a row's description and what is below it. */
	text(name: string): string {
		return this.row(name).textContent ?? "";
	}

	toggle(name: string): void {
		this.row(name).querySelector<HTMLElement>(".checkbox-container")?.click();
	}

	isOn(name: string): boolean {
		return this.row(name).querySelector(".checkbox-container")?.classList.contains("is-enabled") === true;
	}

	click(text: string, within: ParentNode = this.page): void {
		this.button(text, within).click();
	}

	button(text: string, within: ParentNode = this.page): HTMLButtonElement {
		const all = [...within.querySelectorAll<HTMLButtonElement>("button")];
		const found = all.find((button) => button.textContent === text);
		if (found === undefined) throw new Error(`no button ${text} among ${all.map((button) => button.textContent).join(" | ")}`);
		return found;
	}

	/** Type into the row's field and leave it. */
	type(name: string, text: string): void {
		const input = this.row(name).querySelector<HTMLInputElement>("input");
		if (input === null) throw new Error(`row ${name} has no field`);
		input.value = text;
		input.dispatchEvent(new Event("change"));
	}

	/** Turn the server on by its toggle, and wait. */
	async turnOn(): Promise<void> {
		void this.tab;
		this.toggle("Enable server");
		await this.working();
	}

	async working(): Promise<void> {
		await until(() => `working, instead of ${JSON.stringify([this.controller.view, this.controller.log])}`, () => {
			const { view } = this.controller;
			if (view.phase === "error") throw new Error(`${view.problem.code}: ${view.problem.reason}`);
			return view.phase === "working" && view.facts.phase === "running";
		});
	}

	async failed(code: string): Promise<void> {
		await until(() => `error ${code}, instead of ${JSON.stringify([this.controller.view, this.controller.log])}`, () => {
			const { view } = this.controller;
			return view.phase === "error" && view.problem.code === code;
		});
	}

	get url(): string {
		const { view } = this.controller;
		if (view.phase !== "working" || view.facts.url === null) throw new Error("it is not working");
		return view.facts.url;
	}

	get data(): string {
		return this.app.fakeData.get(manifest.id) ?? "";
	}

	/** The plugin is switched off. Resolves when the child is gone. */
	async close(): Promise<void> {
		if (!this.isOpen) return;
		this.isOpen = false;
		this.plugin.unload();
		await this.controller.dispose();
	}

	async clear(): Promise<void> {
		await this.close();
		document.body.empty();
		notices.length = 0;
		rmSync(this.root, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
	}
}

/** Is a process there, and not only waiting to be collected? */
export function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
	} catch {
		return false;
	}
	if (!existsSync("/proc/self/stat")) return true;
	try {
		return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
	} catch {
		return false; // it has gone since
	}
}

/** What a POST to the daemon is answered with. */
export async function knock(url: string, token: string | null): Promise<number> {
	const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
	if (token !== null) headers["Authorization"] = `Bearer ${token}`;
	const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
	return (await fetch(url, { method: "POST", headers, body })).status;
}

/** Somebody else's server on a port. */
export async function squat(port: number): Promise<Server> {
	const server = createServer();
	await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
	return server;
}

/** A port that nobody has, and that the system gives to no connection meanwhile: below those that it deals out. */
export async function freePort(): Promise<number> {
	for (;;) {
		const port = 10_000 + Math.floor(Math.random() * 20_000);
		const server = await squat(port).catch(() => null);
		if (server === null) continue;
		await new Promise((resolve) => server.close(resolve));
		return port;
	}
}

/** A file that is a program in name only. */
export function script(path: string, text: string): string {
	writeFileSync(path, text);
	chmodSync(path, 0o755);
	return path;
}

/** Folder of the Python that runs the programs of tests, put first where programs are looked for. */
export function preferPython(): void {
	process.env["PATH"] = [dirname(VENV), process.env["PATH"] ?? ""].join(delimiter);
}
