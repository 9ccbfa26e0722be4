/**
 * The child process and the JSON-RPC lines that go to and fro. Closing its input is the order to stop.
 *
 * Knows nothing of the editor, nor of what the messages mean.
 */

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";

import type { Clock } from "./clock";
import { LineSplitter, MAX_LINE_BYTES } from "./lines";
import { NoAnswer, Refused, type ErrorData, type EventName, type Events, type Method, type Params, type Result } from "./protocol";

/** How long a child may take to end by itself after its input was closed. The daemon sees to it that it takes no longer. */
export const GRACE_MS = 8_000;

export interface Launch {
	/** Absolute path. */
	program: string;
	args: string[];
	env: NodeJS.ProcessEnv;
	cwd: string;
}

export interface Ended {
	code: number | null;
	signal: string | null;
	/** Code of the system's error if the child could not be started at all, such as ENOENT. */
	failed: string | null;
	/** The last line on stderr; empty if there was none. */
	lastLine: string;
}

export interface Listener {
	event<E extends EventName>(name: E, params: Events[E]): void;
	/** A line of the child's log, or a line on its stdout that is no message. */
	log(line: string): void;
}

interface Waiting {
	resolve(result: unknown): void;
	reject(error: Error): void;
	disarm(): void;
}

export class Bridge {
	/** Resolves when the process is gone. Never rejects. */
	readonly ended: Promise<Ended>;
	private readonly child: ChildProcessWithoutNullStreams;
	private readonly waiting = new Map<number, Waiting>();
	private nextId = 1;
	private isOver = false;
	private lastLine = "";

	/** Starts the child. A child that can't be started shows in `ended`. */
	constructor(
		launch: Launch,
		private readonly listener: Listener,
		private readonly clock: Clock,
	) {
		// no shell, no detaching: the child is the daemon itself, and its life hangs on the pipe
		this.child = spawn(launch.program, launch.args, { cwd: launch.cwd, env: launch.env, stdio: "pipe", windowsHide: true });
		this.ended = new Promise((resolve) => {
			const over = (code: number | null, signal: string | null, failed: string | null): void => {
				if (this.isOver) return;
				this.isOver = true;
				this.giveUp();
				// a grandchild may hold the other ends for ever
				this.child.stdout.destroy();
				this.child.stderr.destroy();
				resolve({ code, signal, failed, lastLine: this.lastLine });
			};
			// `exit`, not `close`: a grandchild that holds the pipe would delay the latter
			this.child.once("exit", (code, signal) => {
				// what it said last may still be in the pipe
				this.clock.after(20, () => over(code, signal, null));
			});
			this.child.once("error", (error: NodeJS.ErrnoException) => {
				if (this.child.pid === undefined) over(null, null, error.code ?? "unknown");
			});
		});
		this.child.stdin.on("error", () => undefined); // the child went away: `exit` says so
		this.read();
	}

	get pid(): number | undefined {
		return this.child.pid;
	}

	/**
	 * Ask and wait for the answer.
	 *
	 * @throws Refused the daemon said no; NoAnswer it ended, or took longer than `withinMs`
	 */
	request<M extends Method>(method: M, params: Params<M>, withinMs: number): Promise<Result<M>> {
		if (this.isOver || !this.child.stdin.writable) return Promise.reject(new NoAnswer("ended"));
		const id = this.nextId++;
		const line = JSON.stringify({ jsonrpc: "2.0", id, method, params });
		if (new TextEncoder().encode(line).length > MAX_LINE_BYTES) {
			return Promise.reject(new Refused({ code: "too-large", reason: "That is too much text for one request.", fix: "" }));
		}
		return new Promise((resolve, reject) => {
			const disarm = this.clock.after(withinMs, () => {
				this.waiting.delete(id);
				reject(new NoAnswer("late"));
			});
			this.waiting.set(id, { resolve: (result) => resolve(result as Result<M>), reject, disarm });
			this.child.stdin.write(`${line}\n`);
		});
	}

	/** Close the child's input, which tells it to end. Returns at once; for moments in which nothing can be awaited. */
	endInput(): void {
		this.child.stdin.end();
	}

	/** Close the child's input and wait until it is gone; it is killed if it does not go. */
	async close(): Promise<Ended> {
		this.endInput();
		this.giveUp();
		const disarm = this.clock.after(GRACE_MS, () => this.child.kill("SIGKILL"));
		const ended = await this.ended;
		disarm();
		return ended;
	}

	private read(): void {
		const messages = new LineSplitter();
		const log = new LineSplitter();
		this.child.stdout.on("data", (piece: Uint8Array) => {
			const before = messages.leftOut;
			for (const line of messages.push(piece)) this.take(line);
			if (messages.leftOut > before) this.listener.log("plugin: a line of more than 1 MiB was left out");
		});
		this.child.stderr.on("data", (piece: Uint8Array) => log.push(piece).forEach((line) => this.note(line)));
		this.child.stderr.on("end", () => {
			const rest = log.rest();
			if (rest !== null) this.note(rest);
		});
	}

	private note(line: string): void {
		if (line.trim() === "") return;
		this.lastLine = line.trim();
		this.listener.log(line);
	}

	private take(line: string): void {
		const message = parse(line);
		if (message === null) {
			if (line.trim() !== "") this.listener.log(line);
			return;
		}
		if (message.id === undefined) {
			if (message.method !== undefined) this.listener.event(message.method as EventName, message.params as Events[EventName]);
			return;
		}
		const waiting = this.waiting.get(message.id as number);
		if (waiting === undefined) return;
		this.waiting.delete(message.id as number);
		waiting.disarm();
		if (message.error === undefined) waiting.resolve(message.result);
		else waiting.reject(new Refused(refusal(message.error)));
	}

	private giveUp(): void {
		for (const waiting of this.waiting.values()) {
			waiting.disarm();
			waiting.reject(new NoAnswer("ended"));
		}
		this.waiting.clear();
	}
}

interface Message {
	id?: unknown;
	method?: string;
	params?: unknown;
	result?: unknown;
	error?: { message?: string; data?: ErrorData };
}

/** A line as a message; null if it is none. */
function parse(line: string): Message | null {
	if (!line.startsWith("{")) return null;
	try {
		const value = JSON.parse(line) as { jsonrpc?: unknown };
		return value.jsonrpc === "2.0" ? (value as Message) : null;
	} catch {
		return null;
	}
}

function refusal(error: { message?: string; data?: ErrorData }): ErrorData {
	return error.data ?? { code: "internal", reason: error.message ?? "The sidecar refused without a reason.", fix: "" };
}
