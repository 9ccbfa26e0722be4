// Made by `npm run types` from sidecar/bridge/pipe-protocol.schema.json; don't edit by hand.
export type WireErrorData = {
	code: "port" | "already-running" | "taken-over" | "stopped" | "vault" | "config" | "disk" | "keyring" | "overridden" | "index" | "not-ready" | "vectors" | "no-such" | "conflict" | "protected" | "too-large" | "busy" | "protocol" | "bad-params" | "bad-message" | "unknown-method" | "unavailable" | "not-started" | "agent" | "internal";
	reason: string;
	fix: string;
	command?: string;
	suggestPort?: number;
};
export type WireSurfaces = {
	notes?: boolean;
	library?: boolean;
	databases?: boolean;
	knowledge?: boolean;
};
export type WireSettingsGiven = {
	port?: number | null;
	allowWrites?: boolean;
	surfaces?: WireSurfaces;
	agentsFolder?: string;
	provider?: "anthropic" | "openai";
	baseUrl?: string | null;
	model?: string | null;
};
export type WireSettings = {
	port: number | null;
	allowWrites: boolean;
	surfaces: {
		notes?: boolean;
		library?: boolean;
		databases?: boolean;
		knowledge?: boolean;
	};
	agentsFolder: string;
	provider: string | null;
	baseUrl: string | null;
	model: string | null;
};
export type WirePhase = "starting" | "indexing" | "running";
export type WireRefused = {
	at: string;
	agent: string;
	reason: string | null;
	status: number;
};
export type WireTime = string;
export type WireAgent = {
	name: string;
	emoji: string | null;
	description: string;
	model: string | null;
	provider: string | null;
	path: string;
	remote: boolean;
	changed: boolean;
	problem: string | null;
	hints: (string)[];
};
export type WireAgents = {
	folder: string;
	agents: (WireAgent)[];
	provider: {
		name: string;
		kind: "anthropic" | "openai";
		baseUrl: string | null;
		hasKey: boolean;
		problem: string | null;
	} | null;
};
export type WireRun = {
	id: string;
	agent: string | null;
	task: string | null;
	client: string | null;
	caller: string;
	way: "mcp" | "stdio" | "plugin";
	outcome: "running" | "done" | "failed" | "refused" | "busy" | "cancelled" | "timeout" | "turn_limit" | "interrupted";
	reason: string | null;
	provider: string | null;
	model: string | null;
	started_at: WireTime;
	ended_at: WireTime | null;
	duration_ms: number | null;
	turns: number | null;
	tools: Record<string, number> | null;
	usage: Record<string, number> | null;
	chars: number | null;
};
export type WireProposal = {
	id: string;
	status: "open" | "applied" | "rejected";
	created: string;
	author: string;
	title: string;
	rationale: string;
	files: (string)[];
	resolution: {
		at: string;
		by: string;
		reason: string | null;
	} | null;
};
export type WireForm = {
	title: string | null;
	text: string;
	masked: string;
	secret: boolean;
};
/** What the plugin asks, and what it gets. */
export interface Methods {
	"hello": { params: {
		protocol: number;
		plugin: string;
		vault: string;
	}; result: {
		protocol: 1;
		version: string;
		pid: number;
		features: ("agents" | "proposals" | "databases" | "knowledge")[];
	} };
	"start": { params: {
		settings?: WireSettingsGiven;
	}; result: {
		port: number;
		url: string;
		settings: WireSettings;
	} };
	"status": { params: Record<string, never>; result: {
		phase: WirePhase;
		port: number | null;
		url: string | null;
		done: number;
		total: number;
		notes: number;
		indexed: number;
		byMeaning: number;
		settled: boolean;
		clients: number;
		refused: WireRefused | null;
		problem: WireErrorData | null;
		version: string;
		pid: number;
		vault: string;
		settings: WireSettings | null;
		generation: number;
		embedder: string | null;
		vectors: string | null;
		skipped: ({
			path: string;
			reason: string;
		})[];
		skippedInAll: number;
		seen: ({
			agent: string;
			token: string;
			lastSeen: WireTime;
		})[];
	} };
	"token/get": { params: Record<string, never>; result: {
		token: string;
		keptIn: string;
	} };
	"token/rotate": { params: Record<string, never>; result: {
		keptIn: string;
		revoked: (string)[];
	} };
	"settings/set": { params: WireSettingsGiven; result: {
		settings: WireSettings;
		restart: boolean;
	} };
	"connect/list": { params: Record<string, never>; result: {
		clients: ({
			client: string;
			title: string;
			transports: ("http" | "stdio")[];
		})[];
	} };
	"connect/get": { params: {
		client: string;
		transport?: "http" | "stdio";
	}; result: {
		client: string;
		title: string;
		transport: "http" | "stdio";
		name: string;
		file: string | null;
		forms: (WireForm)[];
	} };
	"agents/list": { params: Record<string, never>; result: WireAgents };
	"agents/setRemote": { params: {
		name: string;
		on: boolean;
	}; result: WireAgents };
	"agents/run": { params: {
		name: string;
		task: string;
		maxTurns?: number;
		client?: string;
	}; result: {
		id: string;
		text: string;
	} };
	"runs/list": { params: {
		limit?: number;
	}; result: {
		runs: (WireRun)[];
	} };
	"runs/cancel": { params: {
		id: string;
	}; result: Record<string, never> };
	"provider/setKey": { params: {
		provider: string;
		key: string | null;
	}; result: Record<string, never> };
	"proposals/list": { params: {
		all?: boolean;
	}; result: {
		proposals: (WireProposal)[];
		unreadable: ({
			name: string;
			reason: string;
		})[];
		left: number;
	} };
	"proposals/show": { params: {
		id: string;
	}; result: {
		proposal: WireProposal;
		diff: string;
		cut: boolean;
		problem: string | null;
		checksum: string;
	} };
	"proposals/apply": { params: {
		id: string;
		seen: string;
	}; result: {
		id: string;
		status: "applied" | "rejected";
		reason: string | null;
	} };
	"proposals/reject": { params: {
		id: string;
		reason?: string;
	}; result: {
		id: string;
		status: "rejected";
	} };
	"index/rebuild": { params: Record<string, never>; result: Record<string, never> };
	"log/tail": { params: {
		lines?: number;
	}; result: {
		lines: (string)[];
	} };
	"diagnostics": { params: Record<string, never>; result: {
		text: string;
	} };
	"shutdown": { params: Record<string, never>; result: Record<string, never> };
}
/** What the daemon tells unasked. */
export interface Events {
	"state": {
		phase: WirePhase;
		port: number | null;
		url: string | null;
		done: number;
		total: number;
		notes: number;
		indexed: number;
		byMeaning: number;
		settled: boolean;
		clients: number;
		refused: WireRefused | null;
		problem: WireErrorData | null;
	};
	"settings/changed": {
		settings: WireSettings;
	};
	"agents/changed": Record<string, never>;
	"run/finished": {
		run: WireRun;
	};
	"proposals/changed": {
		open: number;
	};
	"notice": {
		code: "token-replaced" | "handed-over" | "other";
		text: string;
	};
	"log": {
		level: "warning" | "error";
		line: string;
	};
	"ending": {
		problem: WireErrorData;
	};
}
