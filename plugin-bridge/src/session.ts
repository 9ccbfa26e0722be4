/** One child from its first line to its end: greeted, started, and asked. Says in a `Problem` why it came to nothing. */

import { Bridge, type Ended, type Launch } from "./bridge";
import type { Clock } from "./clock";
import { exited, fromDaemon, noHello, noStart, unfit, type Problem } from "./problems";
import {
	NoAnswer,
	PROTOCOL,
	Refused,
	type EventName,
	type Events,
	type Method,
	type Params,
	type Result,
	type Settings,
	type SettingsGiven,
	type State,
} from "./protocol";

export const HELLO_MS = 15_000;
/** A daemon in the background may take 20 s to make way, and a cold disk takes its time. */
export const START_MS = 60_000;
export const ANSWER_MS = 20_000;

export interface Hearing {
	event<E extends EventName>(name: E, params: Events[E]): void;
	log(line: string): void;
}

/** A part that a daemon may have besides the notes. */
export type Feature = Result<"hello">["features"][number];

/** A start that came to nothing. */
export class Failed extends Error {
	constructor(readonly problem: Problem) {
		super(problem.reason);
	}
}

export class Session {
	version = "";
	features: ReadonlySet<Feature> = new Set();
	/** It was told to end. */
	isEnding = false;
	readonly ended: Promise<Ended>;
	private readonly bridge: Bridge;
	private farewell: Problem | null = null;

	constructor(launch: Launch, hearing: Hearing, clock: Clock) {
		const event = <E extends EventName>(name: E, params: Events[E]): void => {
			if (name === "ending") this.farewell = fromDaemon((params as Events["ending"]).problem);
			hearing.event(name, params);
		};
		this.bridge = new Bridge(launch, { event, log: (line) => hearing.log(line) }, clock);
		this.ended = this.bridge.ended;
	}

	/**
	 * Greet the child and have it serve the vault. Returns the settings that hold now.
	 *
	 * @throws Failed it is not the right program, refused, or ended
	 */
	async start(vault: string, plugin: string, given: SettingsGiven): Promise<Settings> {
		const hello = await this.ask("hello", { protocol: PROTOCOL, plugin, vault }, HELLO_MS, noHello);
		const problem = unfit(hello.version, hello.protocol);
		if (problem !== null) throw new Failed(problem);
		this.version = hello.version;
		this.features = new Set(hello.features);
		const started = await this.ask("start", { settings: given }, START_MS, noStart);
		return started.settings;
	}

	/** @throws Failed */
	facts(): Promise<State> {
		return this.ask("status", {}, ANSWER_MS, noStart);
	}

	/** @throws Refused, NoAnswer as `Bridge.request` */
	request<M extends Method>(method: M, params: Params<M>, withinMs = ANSWER_MS): Promise<Result<M>> {
		return this.bridge.request(method, params, withinMs);
	}

	/** Why it ended without being asked to. */
	reason(ended: Ended): Problem {
		return this.farewell ?? exited(ended);
	}

	endInput(): void {
		this.isEnding = true;
		this.bridge.endInput();
	}

	async close(): Promise<void> {
		this.isEnding = true;
		await this.bridge.close();
	}

	private async ask<M extends Method>(method: M, params: Params<M>, withinMs: number, late: () => Problem): Promise<Result<M>> {
		try {
			return await this.bridge.request(method, params, withinMs);
		} catch (error) {
			if (error instanceof Refused) throw new Failed(fromDaemon(error.data));
			if (!(error instanceof NoAnswer)) throw error;
			throw new Failed(error.why === "late" ? late() : this.reason(await this.ended));
		}
	}
}
