import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { Device } from "../../src/device";
import { cleaned } from "../../src/diagnostics";
import { diffLines } from "../../src/diff";
import { fromDaemon } from "../../src/problems";
import { isOlder, type Settings } from "../../src/protocol";

const SETTINGS: Settings = {
	port: 24783,
	allowWrites: false,
	surfaces: { notes: true, library: true },
	agentsFolder: "Agents",
	provider: null,
	baseUrl: null,
	model: null,
};

class Storage {
	kept: unknown = null;

	loadLocalStorage(): unknown {
		return this.kept;
	}

	saveLocalStorage(_: string, value: unknown): void {
		this.kept = structuredClone(value);
	}
}

describe("what is kept on this computer", () => {
	it("is off and empty at first, and whatever is found instead of ours", () => {
		for (const kept of [null, 7, "text", [], { enabled: "yes", program: 7, known: "x", pending: [] }]) {
			const storage = new Storage();
			storage.kept = kept;
			const device = new Device(storage);
			expect([device.enabled, device.program, device.pending, device.settings.allowWrites]).toEqual([false, "", {}, false]);
		}
	});

	it("shows a change that waits over what the daemon told", () => {
		const device = new Device(new Storage());
		device.learn(SETTINGS);
		device.later({ surfaces: { library: false } });
		device.later({ allowWrites: true });
		expect(device.settings).toEqual({ ...SETTINGS, allowWrites: true, surfaces: { notes: true, library: false } });
		expect(device.pending).toEqual({ allowWrites: true, surfaces: { library: false } });
	});

	it("forgets what the daemon has taken, and keeps what came later", () => {
		const device = new Device(new Storage());
		device.later({ allowWrites: true, port: 30000 });
		const sent = device.pending;
		device.later({ port: 30001 });
		device.learn({ ...SETTINGS, port: 30000 }, sent);
		expect(device.pending).toEqual({ port: 30001 });
		expect(device.settings.port).toBe(30001);
	});
});

describe("versions", () => {
	it.each([
		["0.1.0", "0.1.0", false],
		["0.0.9", "0.1.0", true],
		["0.10.0", "0.9.0", false],
		["0.1", "0.1.0", false],
		["1.0.0-beta.1", "1.0.0", false],
		["nonsense", "0.1.0", true],
	])("%s before %s: %s", (one, other, older) => {
		expect(isOlder(one, other)).toBe(older);
	});

	it("agree wherever they stand", () => {
		const read = (name: string): Record<string, string> => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), "utf8")) as Record<string, string>;
		const manifest = read("manifest.json");
		expect(read("package.json")["version"]).toBe(manifest["version"]);
		expect(read("versions.json")[manifest["version"] ?? ""]).toBe(manifest["minAppVersion"]);
		expect(manifest["id"]).toBe("vault-sidecar");
		expect(manifest["description"]?.length).toBeLessThanOrEqual(250);
		expect(manifest["description"]).toMatch(/^Serves .*\.$/);
		expect(manifest["isDesktopOnly"]).toBe(true);
		const project = readFileSync(new URL("../../../sidecar/__init__.py", import.meta.url), "utf8");
		expect(project).toContain(`__version__ = "${manifest["version"] ?? ""}"`);
	});
});

describe("a diff", () => {
	it("counts its lines, so that no line of a note is taken for a header", () => {
		const patch = ["--- a/A.md", "+++ b/A.md", "@@ -1,2 +1,2 @@", "--- x", "+++ y", " z", "--- a/B.md", "+++ b/B.md", "@@ -1 +1 @@", "-1", "+2", "\\ No newline at end of file", ""].join("\n");
		expect(diffLines(patch).map(({ kind, text }) => `${kind} ${text}`)).toEqual([
			"file A.md",
			"place @@ -1,2 +1,2 @@",
			"removed -- x",
			"added ++ y",
			"same z",
			"file B.md",
			"place @@ -1 +1 @@",
			"removed 1",
			"added 2",
			"remark No newline at end of file",
		]);
	});
});

describe("diagnostics", () => {
	it("hold neither secrets nor the person's name", () => {
		const said = "GET Bearer abc vsc_0123456789abcdef0123456789 vsl_0123456789abcdefgh sk-ant-api03-xyz /home/jane/Notes";
		expect(cleaned(said, "/home/jane")).toBe("GET <secret> <secret> <secret> <secret> ~/Notes");
	});
});

describe("a problem of the daemon", () => {
	it.each([
		[{ code: "port", reason: "r", fix: "", suggestPort: 24784 }, { does: "use-port", port: 24784 }],
		[{ code: "index", reason: "r", fix: "" }, { does: "show-skipped" }],
		[{ code: "keyring", reason: "r", fix: "", command: "vault-sidecar doctor" }, { does: "copy", command: "vault-sidecar doctor" }],
		[{ code: "taken-over", reason: "r", fix: "" }, { does: "retry" }],
		[{ code: "disk", reason: "r", fix: "" }, null],
	] as const)("has at most one button: %o", (data, remedy) => {
		expect(fromDaemon(data).remedy).toEqual(remedy);
	});
});
