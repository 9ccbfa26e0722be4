/** Runs in the browser: the fake app, and the shipped main.js in it. What a page can't do is relayed to Node.js. */

import { FakeApp, installDom, notices, obsidian } from "../test/fake/obsidian";

type Listener = (...given: unknown[]) => void;

/** A stream of the child, as far as the plugin uses one. */
class Pipe {
	readonly writable = true;
	private readonly listeners: Record<string, Listener[]> = {};

	constructor(private readonly send: (text: string | null) => void) {}

	on(name: string, listener: Listener): void {
		(this.listeners[name] ??= []).push(listener);
	}

	once(name: string, listener: Listener): void {
		this.on(name, listener);
	}

	emit(name: string, ...given: unknown[]): void {
		for (const listener of this.listeners[name] ?? []) listener(...given);
	}

	write(text: string): void {
		this.send(text);
	}

	end(): void {
		this.send(null);
	}

	destroy(): void {
		return;
	}
}

interface Relay {
	spawnChild(id: number, program: string, args: string[]): Promise<void>;
	sayToChild(id: number, text: string | null): Promise<void>;
	killChild(id: number): Promise<void>;
}

interface Child extends Pipe {
	stdin: Pipe;
	stdout: Pipe;
	stderr: Pipe;
}

const relay = window as unknown as Relay;
const children: Child[] = [];

function spawn(program: string, args: string[]): Child {
	const id = children.length;
	const child = Object.assign(new Pipe(() => undefined), {
		pid: 1,
		stdin: new Pipe((text) => void relay.sayToChild(id, text)),
		stdout: new Pipe(() => undefined),
		stderr: new Pipe(() => undefined),
		kill: () => void relay.killChild(id),
	});
	children.push(child);
	void relay.spawnChild(id, program, args);
	return child;
}

const modules: Record<string, unknown> = {
	obsidian,
	"node:child_process": { spawn },
	"node:os": { homedir: () => "/home/me" },
	"node:fs": {
		constants: {},
		accessSync: () => undefined,
		readdirSync: () => [],
		statSync: (path: string) => {
			if (path.includes("nowhere")) throw new Error("ENOENT");
			return { isDirectory: () => false, isFile: () => true };
		},
	},
};

Object.assign(window, {
	process: { platform: "linux", env: {} },
	notices,
	/** A piece of output or the end of a child. */
	childSaid(id: number, from: "stdout" | "stderr", bytes: number[]) {
		children[id]?.[from].emit("data", Uint8Array.from(bytes));
	},
	childEnded(id: number, code: number | null, signal: string | null) {
		children[id]?.emit("exit", code, signal);
	},
	async startApp(code: string, manifest: unknown, vault: string, program: string) {
		installDom(window);
		const app = new FakeApp(vault);
		app.secretStorage.setSecret("anthropic", "no real key");
		app.saveLocalStorage("vault-sidecar", { program });
		const module = { exports: {} as { default: new (app: FakeApp, manifest: unknown) => { onload(): Promise<void> } } };
		const script = document.createElement("script");
		script.textContent = `window.pluginCode = function (require, module, exports) {${code}\n}`;
		document.head.appendChild(script);
		const run = (window as unknown as { pluginCode: Listener }).pluginCode;
		run((name: string) => modules[name] ?? fail(name), module, module.exports);
		const plugin = new module.exports.default(app, manifest);
		await plugin.onload();
		app.workspace.fakeLayoutReady();
		app.fakeOpenTab("vault-sidecar");
		Object.assign(window, { app, plugin });
	},
});

function fail(name: string): never {
	throw new Error(`the page has no module ${name}`);
}
