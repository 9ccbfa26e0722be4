// Bundles src/main.ts into main.js, the one script that Obsidian loads. `--outfile PATH` puts it elsewhere.
import { builtinModules } from "node:module";
import { parseArgs } from "node:util";

import esbuild from "esbuild";

const { values } = parseArgs({ options: { outfile: { type: "string", default: "main.js" } } });

await esbuild.build({
	entryPoints: ["src/main.ts"],
	outfile: values.outfile,
	bundle: true,
	format: "cjs",
	platform: "node",
	target: "es2022",
	external: ["obsidian", "electron", "@codemirror/*", "@lezer/*", ...builtinModules],
	banner: { js: "/* Built from src/ of plugin-bridge; edit there. */" },
	logLevel: "warning",
});
