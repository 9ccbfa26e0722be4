/**
 * The life of the child: stopped, starting, working (indexing or running), error.
 *
 * The wish (is the toggle on?) and the fact (`view`) are two things: in an error the wish stays on. Steps are chained,
 * so that however often the wish changes, one child at most is alive, and the next one starts only after the last one
 * is gone with its port and its lock.
 */

import type { Launch } from "./bridge";
import type { Clock } from "./clock";
import type { Device } from "./device";
import type { Located } from "./locate";
import { noFolder, notLocated, type Problem } from "./problems";
import {
	NoAnswer,
	Refused,
	type EventName,
	type Events,
	type Method,
	type Params,
	type Result,
	type Settings,
	type SettingsGiven,
	type State as Facts,
} from "./protocol";
import { ANSWER_MS, Failed, Session, type Feature } from "./session";

/** What the person sees. */
export type View =
	| { phase: "stopped" }
	| { phase: "starting"; slow: boolean }
	| { phase: "working"; facts: Facts; version: string }
	| { phase: "error"; problem: Problem };

export const SLOW_MS = 10_000;
/** A child that worked this long is started once more if it dies. */
export const STEADY_MS = 60_000;

const LOG_LINES = 200;

const STARTING: View = { phase: "starting", slow: false };

export interface Surroundings {
	device: Device;
	clock: Clock;
	/** Absolute path of the vault's folder; null if it has none. */
	vault: string | null;
	/** Of the plugin. */
	version: string;
	/** Where the program is; `configured` is empty if the person named none. */
	locate(configured: string): Located;
	launch(program: string): Launch;
	/** The person's home folder, to keep its name out of what is shared. */
	home: string;
	/** The provider's key, if one is chosen. The daemon gets it over the pipe at each start, and keeps it in memory. */
	key(): string | null;
}

type Listeners = { [E in EventName]?: Set<(params: Events[E]) => void> };

export class Controller {
	view: View = { phase: "stopped" };
	/** The program that runs, or ran last; null: none was found yet. */
	program: string | null = null;
	/** What the child and the plugin noted, oldest first. */
	readonly log: string[] = [];
	private readonly watchers = new Set<() => void>();
	private readonly listeners: Listeners = {};
	private chain: Promise<void> = Promise.resolve();
	private wish = false;
	private isDisposed = false;
	private session: Session | null = null;
	private workingSince: number | null = null;
	private restarts = 0;
	private hasHandedKey = false;
	/** What the daemon told of its state by itself before it was seen to work: it tells again only what is new. */
	private told: Facts | null = null;

	constructor(private readonly around: Surroundings) {}

	get device(): Device {
		return this.around.device;
	}

	/** Version of the plugin. */
	get pluginVersion(): string {
		return this.around.version;
	}

	get home(): string {
		return this.around.home;
	}

	get clock(): Clock {
		return this.around.clock;
	}

	/** Does the daemon that works have this part? */
	has(feature: Feature): boolean {
		return this.isWorking && this.session !== null && this.session.features.has(feature);
	}

	get isWorking(): boolean {
		return this.view.phase === "working";
	}

	get settings(): Settings {
		return this.device.settings;
	}

	/** Version of the daemon that runs; null if none does. */
	get sidecar(): string | null {
		return this.view.phase === "working" ? this.view.version : null;
	}

	/** Call `seen` after each change of `view` or of the settings. Returns what ends that. */
	watch(seen: () => void): () => void {
		this.watchers.add(seen);
		return () => this.watchers.delete(seen);
	}

	/** Call `heard` for each event of the daemon. Returns what ends that. */
	on<E extends EventName>(name: E, heard: (params: Events[E]) => void): () => void {
		const all = (this.listeners[name] ??= new Set() as Listeners[E]) as Set<(params: Events[E]) => void>;
		all.add(heard);
		return () => all.delete(heard);
	}

	/** Turn the server on or off, and remember it. Resolves once that has been tried. */
	setEnabled(on: boolean): Promise<void> {
		this.device.enabled = on;
		return this.turn(on);
	}

	/** As the person left it, when the vault is opened. */
	resume(): Promise<void> {
		return this.device.enabled ? this.turn(true) : Promise.resolve();
	}

	/** Start again, whether it runs or failed. */
	restart(): Promise<void> {
		this.restarts = 0;
		if (!this.wish) return Promise.resolve();
		this.show(STARTING);
		return this.step(async () => {
			await this.end();
			await this.begin();
		});
	}

	/**
	 * Ask the daemon.
	 *
	 * @throws Refused, NoAnswer as `Bridge.request`
	 */
	ask<M extends Method>(method: M, params: Params<M>, withinMs = ANSWER_MS): Promise<Result<M>> {
		if (this.session === null || !this.isWorking) return Promise.reject(new NoAnswer("ended"));
		return this.session.request(method, params, withinMs);
	}

	/**
	 * Change settings: live if a daemon works, else with the next start.
	 *
	 * @throws Refused, NoAnswer nothing is changed
	 */
	async change(change: SettingsGiven): Promise<void> {
		if (!this.isWorking) {
			this.device.later(change);
			this.tell();
			return;
		}
		const { settings, restart } = await this.ask("settings/set", change);
		this.device.learn(settings, change);
		this.tell();
		if (restart) await this.restart();
	}

	/** End the child without waiting: the window goes away. */
	endNow(): void {
		this.session?.endInput();
	}

	/** The plugin is unloaded or the app quits: end the child, and start none again. What is remembered stays. */
	dispose(): Promise<void> {
		this.isDisposed = true;
		return this.turn(false);
	}

	/** Keep a line for the log, the newest 200. */
	note(line: string): void {
		this.log.push(line);
		this.log.splice(0, this.log.length - LOG_LINES);
	}

	private turn(on: boolean): Promise<void> {
		this.wish = on && !this.isDisposed;
		this.restarts = 0;
		if (!this.wish) this.endNow(); // also in the middle of a start
		else if (!this.isWorking) this.show(STARTING);
		return this.step(async () => {
			// who was told to end ends, even if the wish has changed back since
			if (!this.wish || this.session?.isEnding === true) await this.end();
			if (!this.wish) this.show({ phase: "stopped" });
			else if (this.session === null) await this.begin();
		});
	}

	private step(work: () => Promise<void>): Promise<void> {
		this.chain = this.chain.then(work).catch((error: unknown) => this.note(`plugin: ${String(error)}`));
		return this.chain;
	}

	private async end(): Promise<void> {
		const session = this.session;
		this.session = null;
		await session?.close();
	}

	private async begin(): Promise<void> {
		if (!this.wish) return;
		this.show(STARTING);
		const disarm = this.around.clock.after(SLOW_MS, () => this.show({ phase: "starting", slow: true }));
		try {
			await this.open();
		} catch (error) {
			if (!(error instanceof Failed)) throw error;
			const session = this.session;
			this.session = null;
			await session?.close();
			// whoever turned it off meanwhile does not want to hear of it
			this.show(this.wish ? { phase: "error", problem: error.problem } : { phase: "stopped" });
		} finally {
			disarm();
		}
	}

	/** @throws Failed */
	private async open(): Promise<void> {
		const { device, clock, vault, version } = this.around;
		if (vault === null) throw new Failed(noFolder());
		const located = this.around.locate(device.program);
		if (!located.found) throw new Failed(notLocated(located, vault));
		this.program = located.program;

		const session: Session = new Session(
			this.around.launch(located.program),
			{ event: (name, params) => this.hear(session, name, params), log: (line) => this.note(line) },
			clock,
		);
		this.session = session;
		this.hasHandedKey = false;
		this.told = null;
		const sent = device.pending;
		device.learn(await session.start(vault, version, sent), sent);
		// the rest works without it
		await this.handKey(session).catch((error: unknown) => this.note(`plugin: the provider's key was not taken: ${String(error)}`));
		const facts = await session.facts();
		if (this.session !== session) return;
		this.workingSince = clock.now();
		this.show({ phase: "working", facts: this.told ?? facts, version: session.version });
		void session.ended.then((ended) => this.lost(session, session.reason(ended)));
		void this.sendLate(); // not awaited: it may bring a restart, which waits for this step
	}

	/**
	 * Give the daemon the provider's key that the person has chosen, or take it back.
	 *
	 * @throws Refused, NoAnswer it was not taken
	 */
	async handKey(session = this.session): Promise<void> {
		const { provider } = this.settings;
		if (session === null || provider === null || !session.features.has("agents")) return;
		const key = this.around.key();
		if (key === null && !this.hasHandedKey) return;
		this.hasHandedKey = key !== null;
		await session.request("provider/setKey", { provider, key });
	}

	/** What was changed during the start could not go along with it. */
	private async sendLate(): Promise<void> {
		const { pending } = this.device;
		if (Object.keys(pending).length === 0) return;
		try {
			await this.change(pending);
		} catch (error) {
			if (!(error instanceof Refused)) return; // it ended: the next start brings it
			this.device.forget(pending); // else the tab would go on showing what does not hold
			this.tell();
			this.pass("notice", { code: "other", text: error.data.reason });
		}
	}

	/** The child of `session` is gone. */
	private lost(session: Session, problem: Problem): void {
		if (this.session !== session) return;
		this.session = null;
		const steady = this.workingSince !== null && this.around.clock.now() - this.workingSince > STEADY_MS;
		if (problem.code === "exited" && steady && this.restarts === 0) {
			this.restarts += 1;
			void this.step(async () => (this.session === null ? this.begin() : undefined));
			return;
		}
		this.show(this.wish ? { phase: "error", problem } : { phase: "stopped" });
	}

	private hear<E extends EventName>(session: Session, name: E, params: Events[E]): void {
		if (this.session !== session) return;
		if (name === "state") {
			this.told = params as Facts;
			if (this.view.phase === "working") this.show({ ...this.view, facts: this.told });
		}
		if (name === "settings/changed") {
			this.device.learn((params as Events["settings/changed"]).settings);
			this.tell();
		}
		this.pass(name, params);
	}

	private pass<E extends EventName>(name: E, params: Events[E]): void {
		// a copy: who listens may listen anew, and would be met again in the set itself, for ever
		for (const heard of [...(this.listeners[name] ?? [])]) heard(params);
	}

	private show(view: View): void {
		this.view = view;
		this.tell();
	}

	private tell(): void {
		for (const seen of [...this.watchers]) seen();
	}
}
