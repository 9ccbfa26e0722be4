import obsidianmd from "eslint-plugin-obsidianmd";
import { defineConfig } from "eslint/config";
import globals from "globals";

export default defineConfig([
	{ ignores: ["main.js", "coverage/", "visual/out/", "node_modules/", "package-lock.json"] },
	...obsidianmd.configs.recommended,
	{
		files: ["src/**/*.ts", "test/**/*.ts", "visual/**/*.ts", "vitest.config.ts"],
		languageOptions: { globals: { ...globals.browser, ...globals.node }, parserOptions: { projectService: true } },
	},
	{
		// these run in Node.js, beside the app and not in it
		files: ["test/**/*.ts", "visual/**", "tools/**", "*.mjs"],
		rules: {
			"@typescript-eslint/no-deprecated": "off",
			"import/no-extraneous-dependencies": "off",
			"no-restricted-globals": "off",
			"obsidianmd/no-global-this": "off",
			"obsidianmd/prefer-create-el": "off",
			"obsidianmd/prefer-window-timers": "off",
		},
	},
	{
		files: ["src/**/*.ts"],
		rules: { "obsidianmd/ui/sentence-case": ["error", { brands: ["Claude Code", "MCP", "Obsidian", "Vault Sidecar", "Anthropic"] }] },
	},
]);
