/** A member of the real API that the fake does not have: it fails loudly, so that no test passes on air. */
export function missing(name: string): () => never {
	return () => {
		throw new Error(`the fake of obsidian has no ${name}; build it as the app has it`);
	};
}
