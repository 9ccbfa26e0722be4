/** Gives Node.js a page, as far as the plugin needs one. Its own timers, processes and network stay Node's. */

import { Window } from "happy-dom";

import { installDom } from "./obsidian";

const page = new Window({ url: "app://obsidian.md/" });
/** What was copied last. */
export const clipboard = { text: "", refuses: false };

const names = ["document", "HTMLElement", "Node", "Element", "Event", "MouseEvent"] as const;
for (const name of names) Object.defineProperty(globalThis, name, { value: page[name], configurable: true, writable: true });
Object.defineProperty(globalThis, "window", {
	configurable: true,
	value: Object.assign(new EventTarget(), {
		setTimeout: globalThis.setTimeout,
		clearTimeout: globalThis.clearTimeout,
	}),
});
Object.defineProperty(globalThis, "navigator", {
	configurable: true,
	value: {
		clipboard: {
			writeText: (text: string) => {
				if (clipboard.refuses) return Promise.reject(new Error("not allowed"));
				clipboard.text = text;
				return Promise.resolve();
			},
		},
	},
});
installDom(page as unknown as Window & typeof globalThis & globalThis.Window);
