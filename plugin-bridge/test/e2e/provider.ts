/** A provider of models on this computer that plays a script, for agents that the real daemon runs. */

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("provider.py", import.meta.url));

export type Step = ["say", string] | ["use", string, object] | ["fail", number, string] | ["hang"];

/** One request, as the provider got it. */
export interface Asked {
	tools: string[];
	/** Role and text, the system's words left out. */
	said: [string, string][];
	/** Text of each tool's result so far, and whether the model was told that it failed. */
	results: [string, boolean][];
}

export class Provider {
	url = "";
	private readonly child: ChildProcessWithoutNullStreams;
	private readonly lines: AsyncIterator<string, undefined>;

	private constructor() {
		this.child = spawn("python3", [PROGRAM], { stdio: "pipe" });
		this.child.stderr.pipe(process.stderr);
		this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
	}

	static async open(): Promise<Provider> {
		const provider = new Provider();
		provider.url = ((await provider.heard()) as { url: string }).url;
		return provider;
	}

	/** Begin another script; its last step is played again and again. */
	async plays(...steps: Step[]): Promise<void> {
		this.child.stdin.write(`${JSON.stringify({ plays: steps })}\n`);
		await this.heard();
	}

	/** What it was asked since the script began. */
	async asked(): Promise<Asked[]> {
		this.child.stdin.write('{"asked": true}\n');
		return (await this.heard()) as Asked[];
	}

	async close(): Promise<void> {
		this.child.stdin.end();
		await new Promise((resolve) => this.child.once("exit", resolve));
	}

	private async heard(): Promise<unknown> {
		const { value } = await this.lines.next();
		if (value === undefined) throw new Error("the provider has ended");
		return JSON.parse(value) as unknown;
	}
}
