/** The helpers that the app puts on the prototypes of the DOM; only those that the plugin and the fake use. */

interface Options {
	cls?: string | string[];
	text?: string | DocumentFragment;
	attr?: Record<string, string | number | boolean | null>;
	title?: string;
	value?: string;
	type?: string;
	placeholder?: string;
	href?: string;
}

/** Put them on the prototypes of `window`. */
export function installDom(window: Window & typeof globalThis): void {
	const { document } = window;
	const element = window.HTMLElement.prototype;
	const node = window.Node.prototype;

	function make(parent: Node, tag: string, options: Options | string = {}, callback?: (el: HTMLElement) => void): HTMLElement {
		const el = document.createElement(tag);
		const given = typeof options === "string" ? { cls: options } : options;
		const known = new Set(["cls", "text", "attr", "title", "value", "type", "placeholder", "href"]);
		for (const name of Object.keys(given)) if (!known.has(name)) throw new Error(`the fake does not know createEl's ${name}`);
		el.addClass(...[given.cls ?? []].flat().flatMap((cls) => cls.split(" ")));
		if (given.text !== undefined) el.setText(given.text);
		for (const name of ["title", "value", "type", "placeholder", "href"] as const) {
			const value = given[name];
			if (value !== undefined) el.setAttribute(name, value);
		}
		for (const [name, value] of Object.entries(given.attr ?? {})) if (value !== null) el.setAttribute(name, String(value));
		parent.appendChild(el);
		callback?.(el);
		return el;
	}

	Object.assign(node, {
		empty(this: Node) {
			while (this.firstChild) this.removeChild(this.firstChild);
		},
		createEl(this: Node, tag: string, options?: Options, callback?: (el: HTMLElement) => void) {
			return make(this, tag, options, callback);
		},
		createDiv(this: Node, options?: Options, callback?: (el: HTMLElement) => void) {
			return make(this, "div", options, callback);
		},
		createSpan(this: Node, options?: Options, callback?: (el: HTMLElement) => void) {
			return make(this, "span", options, callback);
		},
	});
	Object.assign(element, {
		setText(this: HTMLElement, text: string | DocumentFragment) {
			this.empty();
			if (typeof text === "string") this.textContent = text;
			else this.appendChild(text);
		},
		getText(this: HTMLElement) {
			return this.textContent ?? "";
		},
		addClass(this: HTMLElement, ...classes: string[]) {
			this.classList.add(...classes.filter((cls) => cls !== ""));
		},
		removeClass(this: HTMLElement, ...classes: string[]) {
			this.classList.remove(...classes);
		},
		toggleClass(this: HTMLElement, classes: string | string[], value: boolean) {
			for (const cls of [classes].flat()) this.classList.toggle(cls, value);
		},
		toggle(this: HTMLElement, shown: boolean) {
			this.style.display = shown ? "" : "none";
		},
	});
}
