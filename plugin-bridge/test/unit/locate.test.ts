import { describe, expect, it } from "vitest";

import { locate, type Host } from "../../src/locate";

interface Files {
	programs?: string[];
	others?: Record<string, "blocked" | "folder">;
	folders?: Record<string, string[]>;
}

function computer(platform: Host["platform"], home: string, env: Host["env"], files: Files = {}): Host {
	return {
		platform,
		home,
		env,
		look: (path) => (files.programs?.includes(path) ? "program" : (files.others?.[path] ?? "nothing")),
		list: (folder) => files.folders?.[folder] ?? [],
	};
}

const mac = (files: Files, env: Host["env"] = {}): Host => computer("darwin", "/Users/me", env, files);
const linux = (files: Files, env: Host["env"] = {}): Host => computer("linux", "/home/me", env, files);
const windows = (files: Files, env: Host["env"] = {}): Host => computer("win32", "C:\\Users\\me", env, files);

describe("looking for the program", () => {
	it.each([
		["uv's own folder", linux({ programs: ["/tools/vault-sidecar"] }, { UV_TOOL_BIN_DIR: "/tools" }), "/tools/vault-sidecar"],
		["~/.local/bin", linux({ programs: ["/home/me/.local/bin/vault-sidecar"] }), "/home/me/.local/bin/vault-sidecar"],
		["Homebrew", mac({ programs: ["/opt/homebrew/bin/vault-sidecar"] }), "/opt/homebrew/bin/vault-sidecar"],
		["mise", linux({ programs: ["/home/me/.local/share/mise/shims/vault-sidecar"] }), "/home/me/.local/share/mise/shims/vault-sidecar"],
		["PATH, last", linux({ programs: ["/odd/bin/vault-sidecar"] }, { PATH: "/bin:/odd/bin" }), "/odd/bin/vault-sidecar"],
		[
			"Python's folder on macOS, the newest first",
			mac({
				folders: { "/Users/me/Library/Python": ["3.9", "3.13"] },
				programs: ["/Users/me/Library/Python/3.9/bin/vault-sidecar", "/Users/me/Library/Python/3.13/bin/vault-sidecar"],
			}),
			"/Users/me/Library/Python/3.13/bin/vault-sidecar",
		],
		[
			"uv on Windows",
			windows({ programs: ["C:\\Users\\me\\.local\\bin\\vault-sidecar.exe"] }),
			"C:\\Users\\me\\.local\\bin\\vault-sidecar.exe",
		],
		[
			"Python's folder on Windows, the newest first",
			windows(
				{
					folders: { "C:\\Roaming\\Python": ["Python39", "Python313", "notes"] },
					programs: ["C:\\Roaming\\Python\\Python39\\Scripts\\vault-sidecar.exe", "C:\\Roaming\\Python\\Python313\\Scripts\\vault-sidecar.exe"],
				},
				{ APPDATA: "C:\\Roaming" },
			),
			"C:\\Roaming\\Python\\Python313\\Scripts\\vault-sidecar.exe",
		],
		[
			"the Path of Windows, spelled its way",
			windows({ programs: ["D:\\bin\\vault-sidecar.exe"] }, { Path: "C:\\Windows;D:\\bin\\" }),
			"D:\\bin\\vault-sidecar.exe",
		],
	])("finds it in %s", (_, host, program) => {
		expect(locate("", host)).toEqual({ found: true, program });
	});

	it("takes no relative folder of PATH, nor a file without .exe on Windows", () => {
		expect(locate("", linux({ programs: ["bin/vault-sidecar", "./vault-sidecar"] }, { PATH: "bin:.:" }))).toMatchObject({ found: false });
		expect(locate("", windows({ programs: ["C:\\Users\\me\\.local\\bin\\vault-sidecar"] }))).toMatchObject({ found: false });
	});

	it("goes by the configured path alone if there is one", () => {
		const host = linux({ programs: ["/home/me/.local/bin/vault-sidecar", "/home/me/my vault-sidecar"] });
		expect(locate("~/my vault-sidecar", host)).toEqual({ found: true, program: "/home/me/my vault-sidecar" });
		expect(locate("/nowhere", host)).toEqual({ found: false, why: "no-file", path: "/nowhere" });
	});

	it("says what is wrong with a path", () => {
		const host = linux({ others: { "/repo": "folder", "/text": "blocked" } });
		expect(locate("/repo", host)).toMatchObject({ why: "folder" });
		expect(locate("/text", host)).toMatchObject({ why: "blocked" });
		expect(locate("vault-sidecar", host)).toMatchObject({ why: "relative" });
		expect(locate('"C:\\x\\vault-sidecar.cmd"', windows({ programs: ["C:\\x\\vault-sidecar.cmd"] }))).toEqual({
			found: false,
			why: "script",
			path: "C:\\x\\vault-sidecar.cmd",
		});
	});

	it("names the sandbox that hides programs", () => {
		expect(locate("", linux({}, { FLATPAK_ID: "md.obsidian.Obsidian" }))).toEqual({ found: false, why: "nothing", sandbox: "Flatpak" });
		expect(locate("", linux({}, { SNAP: "/snap/obsidian/1" }))).toMatchObject({ sandbox: "Snap" });
		expect(locate("", linux({}))).toMatchObject({ sandbox: null });
	});
});
