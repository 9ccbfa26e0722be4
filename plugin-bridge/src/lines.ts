/** Cuts the child's output into lines: bytes in, whole lines out. */

/** Longest line of the protocol, in bytes, its end not counted. */
export const MAX_LINE_BYTES = 1 << 20;

const LF = 0x0a;

/**
 * Collects bytes until a line is whole and only then decodes it, so that a character which arrives in two pieces
 * stays one. A line over the limit is left out as a whole; the lines after it are whole again.
 */
export class LineSplitter {
	/** How many lines were left out because they were too long. */
	leftOut = 0;
	private pieces: Uint8Array[] = [];
	private held = 0;
	private skipping = false;
	private readonly decoder = new TextDecoder("utf-8");

	constructor(private readonly maxBytes = MAX_LINE_BYTES) {}

	/** The lines that this piece completes, in order, without their ends. */
	push(piece: Uint8Array): string[] {
		const lines: string[] = [];
		let from = 0;
		for (let at = piece.indexOf(LF); at >= 0; at = piece.indexOf(LF, from)) {
			this.hold(piece.subarray(from, at));
			const line = this.take();
			if (line !== null) lines.push(line);
			from = at + 1;
		}
		this.hold(piece.subarray(from));
		return lines;
	}

	/** What was held back without an end; null if nothing was. */
	rest(): string | null {
		return this.held > 0 ? this.take() : null;
	}

	private hold(piece: Uint8Array): void {
		if (this.skipping || piece.length === 0) return;
		if (this.held + piece.length > this.maxBytes) {
			this.skipping = true;
			this.pieces = [];
			this.held = 0;
			return;
		}
		this.pieces.push(piece.slice());
		this.held += piece.length;
	}

	private take(): string | null {
		if (this.skipping) {
			this.skipping = false;
			this.leftOut += 1;
			return null;
		}
		const whole = new Uint8Array(this.held);
		let at = 0;
		for (const piece of this.pieces) {
			whole.set(piece, at);
			at += piece.length;
		}
		this.pieces = [];
		this.held = 0;
		return this.decoder.decode(whole).replace(/\r$/, "");
	}
}
