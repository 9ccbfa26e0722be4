/** The parts of a life that take long, with a clock that is turned by hand and a real child. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { Clock } from "../../src/clock";
import { Controller, SLOW_MS, STEADY_MS } from "../../src/controller";
import { Device } from "../../src/device";
import { HELLO_MS, START_MS } from "../../src/session";
import { FAKE, preferPython, until } from "../e2e/desk";

preferPython();

class HandClock implements Clock {
	private time = 0;
	private readonly alarms = new Map<object, { at: number; then: () => void }>();

	now(): number {
		return this.time;
	}

	after(ms: number, then: () => void): () => void {
		if (ms < 100) {
			const timer = setTimeout(then, ms);
			return () => clearTimeout(timer);
		}
		const key = {};
		this.alarms.set(key, { at: this.time + ms, then });
		return () => this.alarms.delete(key);
	}

	turn(ms: number): void {
		this.time += ms;
		for (const [key, { at, then }] of [...this.alarms]) {
			if (at <= this.time && this.alarms.delete(key)) then();
		}
	}
}

describe("a long life", () => {
	let state: string;
	let clock: HandClock;
	let controller: Controller;

	function make(odd: object): void {
		const kept = new Map<string, unknown>();
		controller = new Controller({
			device: new Device({ loadLocalStorage: (key) => kept.get(key), saveLocalStorage: (key, value) => void kept.set(key, value) }),
			clock,
			vault: state,
			version: "0.1.0",
			home: "/home/me",
			locate: () => ({ found: true, program: FAKE }),
			launch: (program) => ({
				program,
				args: ["bridge"],
				cwd: state,
				env: { ...process.env, FAKE_SIDECAR: JSON.stringify(odd), VAULT_SIDECAR_STATE: state },
			}),
			key: () => null,
		});
	}

	const session = (): { version: string; bridge: { pid: number } } | null =>
		(controller as unknown as { session: { version: string; bridge: { pid: number } } | null }).session;
	const pid = (): number => session()?.bridge.pid ?? 0;

	beforeEach(() => {
		state = mkdtempSync(join(tmpdir(), "vault-sidecar-plugin-"));
		clock = new HandClock();
	});

	afterEach(async () => {
		await controller.dispose();
		rmSync(state, { recursive: true, force: true });
	});

	it("a daemon that had worked for a while is started once more if it dies, and only once", async () => {
		make({});
		await controller.setEnabled(true);
		const first = pid();
		clock.turn(STEADY_MS + 1);
		process.kill(first, "SIGKILL");
		await until("started again", () => controller.isWorking && pid() !== first);
		const second = pid();
		clock.turn(STEADY_MS + 1);
		process.kill(second, "SIGKILL");
		await until("given up", () => controller.view.phase === "error");
	});

	it("one that is told to end and at once wanted again makes way for a new one", async () => {
		make({});
		await controller.setEnabled(true);
		const first = pid();
		void controller.setEnabled(false);
		await controller.setEnabled(true);
		expect(pid()).not.toBe(first);
		await expect(controller.ask("status", {})).resolves.toMatchObject({ pid: pid() });
	});

	/** Turn it on, and allow writes before the daemon has started. */
	async function allowedWhileItStarts(odd: object): Promise<void> {
		make(odd);
		const tried = controller.setEnabled(true);
		await until("child", () => pid() > 0);
		await controller.change({ allowWrites: true });
		expect(controller.settings.allowWrites).toBe(true);
		await tried;
	}

	it("what is changed while it starts is brought after, and only once", async () => {
		await allowedWhileItStarts({});
		await until("taken", () => Object.keys(controller.device.pending).length === 0);
		expect(controller.settings.allowWrites).toBe(true);
		await controller.change({ allowWrites: false });
		expect(controller.settings.allowWrites).toBe(false);
		await controller.restart();
		expect(controller.settings.allowWrites).toBe(false);
	});

	it("what is changed while it starts and then refused is told, and is shown as it is", async () => {
		const said: string[] = [];
		const data = { code: "overridden", reason: "Allow writes comes from the environment.", fix: "" };
		const tried = allowedWhileItStarts({ refuse: { "settings/set": data } });
		controller.on("notice", ({ text }) => said.push(text));
		await tried;
		await until("told", () => said.includes(data.reason));
		expect(controller.device.pending).toEqual({});
		expect(controller.settings.allowWrites).toBe(false);
	});

	it("who listens anew while being told is told once", async () => {
		make({});
		await controller.setEnabled(true);
		let told = 0;
		let stop: () => void = () => undefined;
		const listen = (): void => {
			stop = controller.on("agents/changed", () => {
				told += 1;
				stop();
				if (told < 10) listen(); // more would hold up the test for ever
			});
		};
		listen();
		await controller.ask("agents/setRemote", { name: "Scout", on: true });
		expect(told).toBe(1);
	});

	it("one that dies soon is not started again", async () => {
		make({});
		await controller.setEnabled(true);
		clock.turn(STEADY_MS - 1);
		process.kill(pid(), "SIGKILL");
		await until("error", () => controller.view.phase === "error");
	});

	it("a program that never answers is no sidecar", async () => {
		make({ mute: ["hello"] });
		const tried = controller.setEnabled(true);
		await until("child", () => pid() > 0);
		clock.turn(SLOW_MS);
		expect(controller.view).toEqual({ phase: "starting", slow: true });
		clock.turn(HELLO_MS);
		await tried;
		expect(controller.view).toMatchObject({ phase: "error", problem: { code: "no-hello" } });
	});

	it("one that greets and does not start is given up", async () => {
		make({ mute: ["start"] });
		const tried = controller.setEnabled(true);
		await until("greeted", () => (session()?.version ?? "") !== "");
		await new Promise((resolve) => setTimeout(resolve, 50));
		clock.turn(START_MS);
		await tried;
		expect(controller.view).toMatchObject({ phase: "error", problem: { code: "no-start", remedy: { does: "retry" } } });
	});

	it("a request that is too long is refused here", async () => {
		make({});
		await controller.setEnabled(true);
		await expect(controller.ask("agents/run", { name: "x", task: "x".repeat(1 << 20) })).rejects.toThrow("too much text");
		await expect(controller.ask("agents/run", { name: "x", task: "x" })).rejects.toThrow("may not be run");
	});

	it("nothing is asked of a daemon that is not there", async () => {
		make({});
		await expect(controller.ask("status", {})).rejects.toThrow("not running");
	});

	it("the log keeps its newest lines", () => {
		make({});
		for (let line = 0; line < 500; line += 1) controller.note(String(line));
		expect(controller.log.length).toBe(200);
		expect(controller.log.at(-1)).toBe("499");
	});
});
