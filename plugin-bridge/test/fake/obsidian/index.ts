/** What `require("obsidian")` gives to a plugin. A name that the fake does not have throws where it is used. */

import type * as real from "obsidian";

import * as module from "./module";

export { FakeApp } from "./app";
export { installDom } from "./dom";
export { notices } from "./windows";

export const obsidian: object = new Proxy(module satisfies Partial<Record<keyof typeof real, unknown>>, {
	get(target, name) {
		if (name in target || typeof name === "symbol" || name === "__esModule") return target[name as keyof typeof target];
		throw new Error(`the fake of obsidian does not export ${name}; build it as the app has it`);
	},
});
