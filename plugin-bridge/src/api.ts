/**
 * What other plugins may use: `app.plugins.plugins["vault-sidecar"].api`.
 *
 * An agent is run by the daemon, behind the same gate, limit and record as a client's call; this plugin can't go
 * around them either.
 */

import type { Controller } from "./controller";
import { Refused } from "./protocol";

export interface AgentInfo {
	name: string;
	description: string;
	/** Clients and plugins may run it. */
	remote: boolean;
}

export interface RunOptions {
	/** At most so many turns, 1 to 20; the agent's own number if left out. */
	maxTurns?: number;
	/** Name of the plugin that asks; it stands in the record of the run. */
	client?: string;
}

export interface SidecarApi {
	readonly version: 1;
	isRunning(): boolean;
	listAgents(): Promise<AgentInfo[]>;
	/** The agent's answer. Rejects with an Error whose message says why there is none. */
	runAgent(name: string, task: string, options?: RunOptions): Promise<string>;
}

/** The daemon ends a run after five minutes; a little more for the answer to arrive. */
const RUN_MS = 330_000;

export function makeApi(controller: Controller): SidecarApi {
	return {
		version: 1,
		isRunning: () => controller.isWorking,
		listAgents: async () => {
			const { agents } = await controller.ask("agents/list", {});
			return agents.map(({ name, description, remote }) => ({ name, description, remote }));
		},
		runAgent: async (name, task, options = {}) => {
			try {
				const { text } = await controller.ask("agents/run", { name, task, ...options }, RUN_MS);
				return text;
			} catch (error) {
				throw error instanceof Refused ? new Error(error.data.reason) : error;
			}
		},
	};
}
