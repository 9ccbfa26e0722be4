import { fileURLToPath } from "node:url";

import { defineConfig } from "vitest/config";

const fake = fileURLToPath(new URL("test/fake/obsidian/module.ts", import.meta.url));

// `sources` counts lines; `shipped` runs what esbuild made of them, as the app does
export default defineConfig({
	resolve: { alias: { obsidian: fake } },
	test: {
		setupFiles: ["test/fake/dom.ts"],
		testTimeout: 240_000,
		hookTimeout: 60_000,
		maxWorkers: 2,
		coverage: {
			provider: "v8",
			include: ["src/**/*.ts"],
			exclude: ["src/protocol.types.ts"],
			reporter: ["text"],
			thresholds: { lines: 90 },
		},
		projects: [
			{
				extends: true,
				test: { name: "sources", include: ["test/unit/*.test.ts", "test/e2e/fake.test.ts"], env: { PLUGIN_SRC: "1" } },
			},
			{ extends: true, test: { name: "shipped", include: ["test/e2e/{shipped,real,alone}.test.ts"], env: { PLUGIN_SRC: "" } } },
		],
	},
});
