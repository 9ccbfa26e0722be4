/** Time as the plugin needs it; the plugin has the window's, tests have one that they turn. */
export interface Clock {
	/** Milliseconds since some fixed moment. */
	now(): number;
	/** Call `then` once after `ms` milliseconds. Returns what calls it off. */
	after(ms: number, then: () => void): () => void;
}
