/** Loads the plugin as the app does: the shipped main.js, given a `require` that knows `obsidian`. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { runInThisContext } from "node:vm";

import type { PluginManifest } from "obsidian";

import type SidecarPlugin from "../../src/main";
import { obsidian, type FakeApp } from "./obsidian";

const root = new URL("../../", import.meta.url);

export const manifest = JSON.parse(readFileSync(new URL("manifest.json", root), "utf8")) as PluginManifest;

type PluginClass = new (app: FakeApp, manifest: PluginManifest) => SidecarPlugin;

/** With PLUGIN_SRC=1 the sources are taken instead, whose lines can be counted. */
export async function pluginClass(): Promise<PluginClass> {
	if (process.env["PLUGIN_SRC"] === "1") return (await import("../../src/main")).default as unknown as PluginClass;
	const code = readFileSync(new URL("main.js", root), "utf8");
	const nodeRequire = createRequire(import.meta.url);
	const module = { exports: {} as { default?: PluginClass } };
	const load = (name: string): unknown => (name === "obsidian" ? obsidian : nodeRequire(name));
	const wrapped = `(function (require, module, exports) {${code}\n})`;
	const start = runInThisContext(wrapped, { filename: "main.js" }) as (...given: unknown[]) => void;
	start(load, module, module.exports);
	if (module.exports.default === undefined) throw new Error("main.js exports no plugin");
	return module.exports.default;
}
