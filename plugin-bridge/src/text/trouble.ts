/** What is wrong, and what to do. The daemon's own words come on top of these, as they are. */

import { sentence, short } from "./words";

export const FIX = {
	install: "Install it, then turn the server on again.",
	sandbox: "Start the sidecar in a terminal, or install Obsidian from its website.",
	path: "Correct the path under Advanced, or clear it to let the plugin look for the program.",
	upgrade: "Upgrade it, then try again.",
	updatePlugin: "Update the plugin.",
	updateSidecar: "Update the sidecar.",
	report: "If this goes on, copy the diagnostics and report it.",
	tryAgain: "Try again.",
} as const;

export const REMEDY = {
	command: "Copy command",
	retry: "Try again",
	clearPath: "Clear path",
	diagnostics: "Copy diagnostics",
	skipped: "Show them",
	port: (port: number): string => `Use port ${port}`,
} as const;

export const REASON = {
	notFound: "The sidecar program is not installed.",
	sandbox: (kind: string): string =>
		`Obsidian runs as a ${kind} package, which can't see programs in your home folder.`,
	noFile: (path: string): string => `No program at ${short(path)}.`,
	folder: (path: string): string => `${short(path)} is a folder.`,
	blocked: (path: string): string => `${short(path)} is not allowed to run.`,
	script: (path: string): string => `${short(path)} is a script (.cmd or .bat): choose the .exe beside it.`,
	relative: (path: string): string => `${short(path)} is not a whole path.`,
	tooOld: (is: string, needed: string): string => `The sidecar is ${short(is)}; this plugin needs ${needed} or newer.`,
	protocol: (is: string, needed: number): string => `The sidecar speaks protocol ${short(is)}; this plugin needs ${needed}.`,
	noHello: "The program started but is not the sidecar (no answer in 15 s).",
	noStart: "The sidecar started but did not get ready in a minute.",
	exited: (how: string, line: string): string =>
		line === "" ? `The sidecar stopped by itself (${how}).` : `The sidecar stopped by itself (${how}): ${sentence(short(line, 90))}`,
	blockedBySystem: (code: string): string => `The system refused to start the program (${short(code, 20)}).`,
	alreadyRunning: "Another sidecar already serves this vault.",
	noFolder: "This vault has no folder on this computer that could be served.",
} as const;

export const PORT_RULE = "Use a whole number from 1024 to 65535.";

export function exitWords(code: number | null, signal: string | null): string {
	return code === null ? `signal ${signal ?? "unknown"}` : `code ${code}`;
}

export function noKey(provider: string): string {
	return `There is no key for ${short(provider, 40)} yet.`;
}

export function folderMissing(path: string): string {
	return `There is no folder ${short(path)} in this vault.`;
}
