/**
 * Finds the program `vault-sidecar` on this computer.
 *
 * A program of the desktop does not have the PATH of the shell, so the folders where Python installers put commands
 * are looked at by their absolute paths. Nothing is run here, no shell is asked, and no bare name is ever returned.
 */

/** What the search asks of the computer; a plain object in tests. */
export interface Host {
	platform: "darwin" | "linux" | "win32";
	home: string;
	env: Record<string, string | undefined>;
	/** What lies at an absolute path. `blocked`: a file that may not be run. */
	look(path: string): "program" | "blocked" | "folder" | "nothing";
	/** Names in a folder; empty if it can't be read. */
	list(folder: string): string[];
}

export type Located =
	| { found: true; program: string }
	| { found: false; why: "nothing"; sandbox: "Flatpak" | "Snap" | null }
	| { found: false; why: "no-file" | "folder" | "blocked" | "script" | "relative"; path: string };

const NAME = "vault-sidecar";

/** The program at the configured path if there is one, else the first in the known folders. */
export function locate(configured: string, host: Host): Located {
	const chosen = expand(configured.trim(), host);
	if (chosen !== "") return judge(chosen, host);
	const file = host.platform === "win32" ? `${NAME}.exe` : NAME;
	for (const folder of folders(host)) {
		const program = join(host, folder, file);
		if (host.look(program) === "program") return { found: true, program };
	}
	return { found: false, why: "nothing", sandbox: sandbox(host.env) };
}

/** Whether a path can be used, and if not, why. */
function judge(path: string, host: Host): Located {
	const absolute = host.platform === "win32" ? /^([a-z]:[\\/]|\\\\)/i : /^\//;
	if (!absolute.test(path)) return { found: false, why: "relative", path };
	// Node refuses to start these without a shell, and a shell would be the first hole
	if (host.platform === "win32" && /\.(cmd|bat|ps1)$/i.test(path)) return { found: false, why: "script", path };
	const seen = host.look(path);
	if (seen === "program") return { found: true, program: path };
	if (seen === "nothing") return { found: false, why: "no-file", path };
	return { found: false, why: seen, path };
}

/** Absolute folders to look into, best first. */
function folders(host: Host): string[] {
	const { env, home } = host;
	const at = (...parts: string[]): string => join(host, ...parts);
	const named = [env["UV_TOOL_BIN_DIR"], env["XDG_BIN_HOME"], env["PIPX_BIN_DIR"], at(home, ".local", "bin")];
	const known = host.platform === "win32" ? windowsFolders(host, at) : unixFolders(host, at);
	// Windows spells it Path, and process.env of a renderer is no longer blind to case
	const path = env["PATH"] ?? env["Path"] ?? "";
	const listed = path.split(host.platform === "win32" ? ";" : ":");
	return [...named, ...known, ...listed].filter((folder): folder is string => isAbsolute(folder, host));
}

function unixFolders(host: Host, at: (...parts: string[]) => string): string[] {
	const { home } = host;
	const pythons = at(home, "Library", "Python");
	return [
		"/opt/homebrew/bin",
		"/usr/local/bin",
		"/usr/bin",
		at(home, ".pyenv", "shims"),
		at(home, ".local", "share", "mise", "shims"),
		at(home, ".nix-profile", "bin"),
		"/run/current-system/sw/bin",
		...(host.platform === "darwin" ? newestFirst(host.list(pythons)).map((name) => at(pythons, name, "bin")) : []),
	];
}

function windowsFolders(host: Host, at: (...parts: string[]) => string): string[] {
	const { env, home } = host;
	const scripts = (folder: string): string[] =>
		newestFirst(host.list(folder).filter((name) => /^Python\d/i.test(name))).map((name) =>
			at(folder, name, "Scripts"),
		);
	const appData = env["APPDATA"];
	const local = env["LOCALAPPDATA"];
	return [
		...(appData ? scripts(at(appData, "Python")) : []),
		...(local ? scripts(at(local, "Programs", "Python")) : []),
		at(home, "scoop", "shims"),
	];
}

/** `3.9` comes after `3.13` here, and Python39 after Python313. */
function newestFirst(names: string[]): string[] {
	const minor = (name: string): number => Number(/3\.?(\d+)/.exec(name)?.[1] ?? -1);
	return [...names].sort((one, other) => minor(other) - minor(one));
}

function sandbox(env: Host["env"]): "Flatpak" | "Snap" | null {
	if (env["FLATPAK_ID"]) return "Flatpak";
	return env["SNAP"] ? "Snap" : null;
}

function expand(path: string, host: Host): string {
	const bare = path.replace(/^"(.*)"$/, "$1"); // as Windows copies a path
	return bare === "~" || /^~[\\/]/.test(bare) ? host.home + bare.slice(1) : bare;
}

function isAbsolute(folder: string | undefined, host: Host): boolean {
	return folder !== undefined && (host.platform === "win32" ? /^([a-z]:[\\/]|\\\\)/i : /^\//).test(folder);
}

function join(host: Host, ...parts: string[]): string {
	const sign = host.platform === "win32" ? "\\" : "/";
	return parts.map((part, at) => (at === 0 ? part.replace(/[\\/]+$/, "") : part)).join(sign);
}
