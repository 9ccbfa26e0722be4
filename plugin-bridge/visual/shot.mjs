// Takes pictures of the settings tab: the shipped main.js in headless Chromium, where a click on the toggle starts a
// real daemon. `npm run visual [-- OUT]`; needs Debian's chromium, or the one that CHROMIUM names. Look at them whenever
// the tab changes.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import esbuild from "esbuild";
import { chromium } from "playwright-core";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const out = process.argv[2] ?? here("out");
const REAL = process.env.VAULT_SIDECAR_PROGRAM ?? here("../../.venv/bin/vault-sidecar");
const FAKE = here("../test/fake/sidecar.py");
const NOTES = 6000; // enough for the bar to be seen

/** Records for the list of runs, the newest first: what differs from a usual one. */
const begun = { ended_at: null, duration_ms: null, turns: null, tools: null, usage: null, chars: null };
const RUNS = [
	{ ...begun, outcome: "running", task: "Take stock of the cellar, and list what runs out before spring.", client: "claude-code", started_at: "2026-11-30T11:09:41Z" },
	{
		outcome: "failed", agent: "Editor", task: "Tighten Projects/Plan.md to one page.", client: "cursor", duration_ms: 31_400, started_at: "2026-11-30T11:02:10Z",
		reason: "'Editor' failed: the provider answered 529 (Overloaded).", usage: { input_tokens: 1_204, output_tokens: 0 },
	},
	{
		...begun, outcome: "refused", agent: "Scuot", task: "Which notes mention heating?", client: "claude-code",
		started_at: "2026-11-30T10:58:03Z", reason: "There is no agent 'Scuot'. list_agents names them.",
	},
	{
		outcome: "turn_limit", started_at: "2026-11-29T18:31:55Z", task: "Read every note of the last ten years and tell what I have learned about heat pumps, tanks and wells.", way: "plugin",
		client: "dataview", duration_ms: 143_000, reason: "'Scout' stopped after 8 turns without an answer.", usage: { input_tokens: 182_340, output_tokens: 6_120 },
	},
];

mkdirSync(out, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "vault-sidecar-visual-"));
const vault = join(work, "Notes");
mkdirSync(vault);
for (let note = 0; note < NOTES; note += 1) {
	writeFileSync(join(vault, `Note ${note}.md`), `# Note ${note}\n\n${"The pump hums at night, the tank is warm. ".repeat(20)}\n`);
}

const bundle = await esbuild.build({ entryPoints: [here("page.ts")], bundle: true, format: "iife", write: false, target: "es2022" });
const html = `<!doctype html><meta charset="utf-8"><style>${readFileSync(here("app.css"), "utf8")}${readFileSync(here("../styles.css"), "utf8")}</style><body>`;
const code = readFileSync(here("../main.js"), "utf8");
const manifest = JSON.parse(readFileSync(here("../manifest.json"), "utf8"));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const children = [];

/** A page with the app in it; `odd` is for the scripted daemon. */
async function open(theme, program, odd = {}) {
	const page = await browser.newPage({ viewport: { width: 820, height: 1500 } });
	const state = mkdtempSync(join(work, "state-"));
	const env = {
		...process.env,
		VAULT_SIDECAR_STATE: state,
		VAULT_SIDECAR_INDEX_EMBEDDER: "hash",
		PYTHON_KEYRING_BACKEND: "keyring.backends.fail.Keyring",
		FAKE_SIDECAR: JSON.stringify(odd),
		PATH: [dirname(REAL), process.env.PATH].join(delimiter),
	};
	const gate = { open: Promise.resolve() };
	const mine = [];
	await page.exposeFunction("spawnChild", (id, path, args) => {
		const child = spawn(path, args, { env, stdio: "pipe" });
		mine[id] = child;
		children.push(child);
		for (const from of ["stdout", "stderr"]) {
			child[from].on("data", async (data) => {
				await gate.open;
				await page.evaluate(([one, two, three]) => window.childSaid(one, two, three), [id, from, [...data]]).catch(() => undefined);
			});
		}
		child.on("exit", (status, signal) => {
			void page.evaluate(([one, two, three]) => window.childEnded(one, two, three), [id, status, signal]).catch(() => undefined);
		});
	});
	await page.exposeFunction("sayToChild", (id, text) => void (text === null ? mine[id].stdin.end() : mine[id].stdin.write(text)));
	await page.exposeFunction("killChild", (id) => void mine[id].kill("SIGKILL"));
	await page.setContent(html);
	await page.evaluate((name) => document.body.classList.add(name), `theme-${theme}`);
	await page.evaluate(bundle.outputFiles[0].text);
	await page.evaluate((given) => window.startApp(...given), [code, manifest, vault, program]);
	const row = (name) => page.locator(".setting-item").filter({ has: page.locator(".setting-item-name", { hasText: new RegExp(`^${name}$`) }) });
	const says = (text) => row("Status").filter({ hasText: text }).waitFor({ timeout: 60_000 });
	const shoot = async (name) => {
		await page.evaluate(() => document.querySelectorAll(".notice").forEach((notice) => notice.remove()));
		await page.screenshot({ path: join(out, `${theme}-${name}.png`), animations: "disabled" });
		process.stdout.write(`${theme}-${name}.png\n`);
	};
	return { page, row, says, shoot, gate, end: async () => {
		mine.forEach((child) => child.stdin.end());
		await Promise.all(mine.map((child) => child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once("exit", resolve))));
		await page.close();
	} };
}

try {
	for (const theme of ["light", "dark"]) {
		const real = await open(theme, REAL);
		await real.shoot("1-stopped");
		let release;
		real.gate.open = new Promise((resolve) => (release = resolve));
		await real.row("Enable server").locator(".checkbox-container").click();
		await real.says("Starting...");
		await real.shoot("2-starting");
		release();
		await real.says(/Indexing [1-9]/);
		await real.shoot("3-indexing");
		await real.says("Running on");
		await real.row("Access token").getByText("Show for 30 s").click();
		await real.page.locator("pre", { hasText: /^vsc_/ }).waitFor();
		await real.page.waitForTimeout(300); // the command is asked for in the background
		await real.shoot("4-running");
		await real.row("Access token").getByText("Regenerate").click();
		await real.shoot("5-confirm");
		await real.end();

		const wrong = await open(theme, "/nowhere/vault-sidecar");
		await wrong.row("Enable server").locator(".checkbox-container").click();
		await wrong.says("No program at");
		await wrong.shoot("6-error");
		await wrong.end();

		const scripted = await open(theme, FAKE, { runs: RUNS });
		await scripted.page.evaluate(() => window.plugin.controller.device.later({ provider: "anthropic" }));
		await scripted.row("Enable server").locator(".checkbox-container").click();
		await scripted.says("Running on");
		await scripted.row("Proposed changes").locator("button.mod-cta").click();
		await scripted.page.locator(".modal .setting-item", { hasText: "Tidy the plan" }).waitFor();
		await scripted.shoot("7-proposals");
		await scripted.page.locator(".modal .setting-item", { hasText: "Tidy the plan" }).locator("button").click();
		await scripted.page.locator(".vault-sidecar-diff").waitFor();
		await scripted.shoot("8-diff");
		await scripted.page.locator(".modal-bg").click({ position: { x: 5, y: 5 } });
		await scripted.row("Agents").click();
		await scripted.row("🔭 Scout").locator(".checkbox-container").click();
		await scripted.page.evaluate(() => window.plugin.api.runAgent("Scout", "Which notes mention heating?", { client: "claude-code" }));
		await scripted.page.getByText("4,312 tokens").waitFor();
		await scripted.shoot("9-agents");
		await scripted.end();
	}
} finally {
	await browser.close();
	for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
	rmSync(work, { recursive: true, force: true, maxRetries: 5 });
}
