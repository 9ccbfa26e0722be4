/**
 * What holds for this vault on this computer alone.
 *
 * It is kept in the app's local storage, which no synchronisation carries: a file in the vault must not be able to
 * switch anything on, nor carry a path to another computer. Nothing secret is kept here either.
 */

import type { Settings, SettingsGiven } from "./protocol";

/** The part of the app that keeps values per device and vault. */
export interface LocalStorage {
	loadLocalStorage(key: string): unknown;
	saveLocalStorage(key: string, value: unknown): void;
}

interface Kept {
	/** The person wants the server on. */
	enabled: boolean;
	/** Path of the program; empty: it is looked for. */
	program: string;
	/** Name of the secret that holds the provider's key; the secret itself stays in the app's secret storage. */
	secret: string;
	/** The daemon's settings as it last told them; null before its first start. */
	known: Settings | null;
	/** What the person changed while no daemon ran; the next start brings it. */
	pending: SettingsGiven;
}

const KEY = "vault-sidecar";

const NOTHING: Kept = { enabled: false, program: "", secret: "", known: null, pending: {} };

export class Device {
	constructor(private readonly storage: LocalStorage) {}

	get enabled(): boolean {
		return this.kept().enabled;
	}

	set enabled(enabled: boolean) {
		this.keep({ enabled });
	}

	get program(): string {
		return this.kept().program;
	}

	set program(program: string) {
		this.keep({ program });
	}

	get secret(): string {
		return this.kept().secret;
	}

	set secret(secret: string) {
		this.keep({ secret });
	}

	get pending(): SettingsGiven {
		return this.kept().pending;
	}

	/** The settings as they will hold: what the daemon told last, and over it what waits for the next start. */
	get settings(): Settings {
		const { known, pending } = this.kept();
		const settings = known ?? UNKNOWN;
		return { ...settings, ...pending, surfaces: { ...settings.surfaces, ...pending.surfaces } };
	}

	/** Remember a change for the next start. */
	later(change: SettingsGiven): void {
		const { pending } = this.kept();
		const surfaces = { ...pending.surfaces, ...change.surfaces };
		this.keep({ pending: { ...pending, ...change, ...(Object.keys(surfaces).length > 0 ? { surfaces } : {}) } });
	}

	/** The daemon told what holds. `sent` is what it was given: of the waiting changes only later ones are kept. */
	learn(known: Settings, sent: SettingsGiven = {}): void {
		const waiting = Object.entries(this.kept().pending).filter(
			([name, value]) => JSON.stringify(value) !== JSON.stringify(sent[name as keyof SettingsGiven]),
		);
		this.keep({ known, pending: Object.fromEntries(waiting) });
	}

	/** A change that waits will not be made. */
	forget(change: SettingsGiven): void {
		const waiting = Object.entries(this.kept().pending).filter(([name]) => !(name in change));
		this.keep({ pending: Object.fromEntries(waiting) });
	}

	private kept(): Kept {
		const raw = this.storage.loadLocalStorage(KEY);
		if (typeof raw !== "object" || raw === null) return NOTHING;
		const kept = raw as Partial<Record<keyof Kept, unknown>>;
		return {
			enabled: kept.enabled === true,
			program: typeof kept.program === "string" ? kept.program : "",
			secret: typeof kept.secret === "string" ? kept.secret : "",
			known: isTable(kept.known) ? { ...UNKNOWN, ...kept.known } : null,
			pending: isTable(kept.pending) ? kept.pending : {},
		};
	}

	private keep(change: Partial<Kept>): void {
		this.storage.saveLocalStorage(KEY, { ...this.kept(), ...change });
	}
}

/** How a daemon behaves whose settings nobody has changed. */
const UNKNOWN: Settings = {
	port: null,
	allowWrites: false,
	surfaces: { notes: true, library: true, databases: true, knowledge: true },
	agentsFolder: "Agents",
	provider: null,
	baseUrl: null,
	model: null,
};

function isTable(value: unknown): value is Record<string, never> {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
