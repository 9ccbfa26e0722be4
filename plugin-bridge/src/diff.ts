/** A unified diff as lines with a kind, for drawing. */

import { visible } from "./text";

export interface DiffLine {
	kind: "file" | "place" | "added" | "removed" | "same" | "remark";
	text: string;
}

/**
 * The lines of a patch. A new file's name stands once, marked as new. Within a hunk the first letter alone decides, as
 * a removed line may itself begin with dashes. Letters that would not show are spelled out: a person must see all of
 * what they apply.
 */
export function diffLines(patch: string): DiffLine[] {
	const lines: DiffLine[] = [];
	let from = "";
	let left = { old: 0, new: 0 };
	for (const line of patch.replace(/\n$/, "").split("\n")) {
		if (left.old > 0 || left.new > 0 || line.startsWith("\\")) {
			const kind = KINDS[line[0] ?? " "] ?? "same";
			if (kind === "same" || kind === "removed") left.old -= 1;
			if (kind === "same" || kind === "added") left.new -= 1;
			lines.push({ kind, text: visible(kind === "remark" ? line.slice(2) : line.slice(1)) });
			continue;
		}
		const place = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
		if (place !== null) {
			left = { old: Number(place[1] ?? 1), new: Number(place[2] ?? 1) };
			lines.push({ kind: "place", text: line });
		} else if (line.startsWith("--- ")) from = line.slice(4);
		else if (line.startsWith("+++ ")) {
			const name = visible(line.slice(4)).replace(/^b\//, "");
			lines.push({ kind: "file", text: from === "/dev/null" ? `${name} (new)` : name });
		}
	}
	return lines;
}

const KINDS: Record<string, DiffLine["kind"]> = { "+": "added", "-": "removed", " ": "same", "\\": "remark" };
