/** This computer, as the search for the program and the start of the child see it. */

import { accessSync, constants, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";

import type { Launch } from "./bridge";
import type { Host } from "./locate";

export function thisComputer(): Host {
	const platform = process.platform === "win32" || process.platform === "darwin" ? process.platform : "linux";
	return { platform, home: homedir(), env: process.env, look: (path) => look(path, platform), list };
}

/** How the daemon is started: it finds the vault in the first message, so that no path stands in the process list. */
export function launchOf(program: string, host: Host): Launch {
	return {
		program,
		args: ["bridge"],
		// a child of a desktop program may get an ASCII locale, in which Python fails at the first other letter
		env: { ...host.env, PYTHONUTF8: "1" },
		// not the vault: a folder in which a program runs can't be renamed on Windows
		cwd: host.home,
	};
}

function look(path: string, platform: Host["platform"]): ReturnType<Host["look"]> {
	try {
		const seen = statSync(path);
		if (seen.isDirectory()) return "folder";
		if (!seen.isFile()) return "nothing";
		if (platform !== "win32") accessSync(path, constants.X_OK);
		return "program";
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === "EACCES" ? "blocked" : "nothing";
	}
}

function list(folder: string): string[] {
	try {
		return readdirSync(folder);
	} catch {
		return [];
	}
}
