/** What can be wrong: the sentence, the way out, and at most one button. */

import type { Ended } from "./bridge";
import type { Located } from "./locate";
import { isOlder, MIN_SIDECAR, PROTOCOL, type ErrorData } from "./protocol";
import { exitWords, FIX, REASON } from "./text";

/** What the one button of a problem does. */
export type Remedy =
	| { does: "copy"; command: string }
	| { does: "use-port"; port: number }
	| { does: "retry" }
	| { does: "clear-path" }
	| { does: "diagnostics" }
	| { does: "show-skipped" };

export interface Problem {
	/** Stable; the daemon's codes and a few of the plugin's own. */
	code: string;
	reason: string;
	/** A sentence, or empty. */
	fix: string;
	remedy: Remedy | null;
}

export const INSTALL = "uv tool install vault-sidecar";
export const UPGRADE = "uv tool upgrade vault-sidecar";

const RETRY: Remedy = { does: "retry" };

/** Why no program can be started. */
export function notLocated(located: Extract<Located, { found: false }>, vault: string): Problem {
	if (located.why !== "nothing") {
		const words = { "no-file": REASON.noFile, folder: REASON.folder, blocked: REASON.blocked, script: REASON.script, relative: REASON.relative };
		return { code: "bad-path", reason: words[located.why](located.path), fix: FIX.path, remedy: { does: "clear-path" } };
	}
	if (located.sandbox !== null) {
		const command = `vault-sidecar serve ${quoted(vault)}`;
		return { code: "sandbox", reason: REASON.sandbox(located.sandbox), fix: FIX.sandbox, remedy: { does: "copy", command } };
	}
	return { code: "not-found", reason: REASON.notFound, fix: FIX.install, remedy: { does: "copy", command: INSTALL } };
}

/** Why a daemon that answered is not the right one; null if it is. */
export function unfit(version: string, protocol: number): Problem | null {
	if (protocol !== PROTOCOL) return otherProtocol(String(protocol), protocol < PROTOCOL);
	if (!isOlder(version, MIN_SIDECAR)) return null;
	return { code: "too-old", reason: REASON.tooOld(version, MIN_SIDECAR), fix: FIX.upgrade, remedy: { does: "copy", command: UPGRADE } };
}

function otherProtocol(is: string, daemonIsOlder: boolean): Problem {
	const reason = REASON.protocol(is, PROTOCOL);
	if (daemonIsOlder) return { code: "protocol", reason, fix: FIX.updateSidecar, remedy: { does: "copy", command: UPGRADE } };
	return { code: "protocol", reason, fix: FIX.updatePlugin, remedy: null };
}

export function noHello(): Problem {
	return { code: "no-hello", reason: REASON.noHello, fix: FIX.path, remedy: { does: "diagnostics" } };
}

export function noStart(): Problem {
	return { code: "no-start", reason: REASON.noStart, fix: FIX.tryAgain, remedy: RETRY };
}

export function noFolder(): Problem {
	return { code: "no-folder", reason: REASON.noFolder, fix: "", remedy: null };
}

/** The child ended and nobody had asked for it. */
export function exited(ended: Ended): Problem {
	if (ended.failed !== null) {
		return { code: "bad-path", reason: REASON.blockedBySystem(ended.failed), fix: FIX.path, remedy: { does: "clear-path" } };
	}
	if (ended.code === ALREADY_RUNNING) {
		return { code: "already-running", reason: REASON.alreadyRunning, fix: FIX.tryAgain, remedy: RETRY };
	}
	return { code: "exited", reason: REASON.exited(exitWords(ended.code, ended.signal), ended.lastLine), fix: FIX.report, remedy: RETRY };
}

const ALREADY_RUNNING = 3; // exit code: another daemon serves this vault

/** The daemon's own words, with the button that fits. */
export function fromDaemon(data: ErrorData): Problem {
	return { code: data.code, reason: data.reason, fix: data.fix, remedy: remedyFor(data) };
}

function remedyFor(data: ErrorData): Remedy | null {
	if (data.code === "port" && data.suggestPort !== undefined) return { does: "use-port", port: data.suggestPort };
	if (data.code === "index") return { does: "show-skipped" };
	if (data.command !== undefined) return { does: "copy", command: data.command };
	return AGAIN.has(data.code) ? RETRY : null;
}

/** Refusals that may be over a moment later. */
const AGAIN: ReadonlySet<string> = new Set(["already-running", "taken-over", "stopped", "vault", "config", "internal", "port", "busy"]);

/** A path as one word of a POSIX shell; the sandboxes exist on Linux only. */
function quoted(path: string): string {
	return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
