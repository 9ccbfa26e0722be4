/** A row with a line of text that counts when it is finished, not at each letter: half a port must start nothing. */

import type { Setting } from "obsidian";

export interface Field {
	value: string;
	placeholder: string;
	/** For a number, arrows and a keyboard of digits. */
	type?: "text" | "number";
	/** What is wrong with a text; null if nothing is. */
	check(value: string): string | null;
	/** Called with a new text that passed. What it throws is shown under the row. */
	commit(value: string): Promise<string | null>;
}

/** Returns what shows another value, for one that was changed elsewhere; what is being typed stays. */
export function addField(setting: Setting, field: Field): (value: string) => void {
	let held = field.value;
	let show: (value: string) => void = () => undefined;
	setting.addText((text) => {
		show = (value) => {
			text.setValue(value);
		};
		text.setValue(field.value).setPlaceholder(field.placeholder);
		text.inputEl.type = field.type ?? "text";
		text.inputEl.spellcheck = false;
		// `change` comes when the field is left or Enter is pressed
		text.inputEl.addEventListener("change", () => {
			const value = text.getValue().trim();
			const wrong = field.check(value);
			setting.setErrorMessage(wrong);
			if (wrong !== null || value === held) return;
			const before = held;
			held = value;
			void field.commit(value).then((refused) => {
				if (refused !== null) held = before; // the same text may be tried again
				setting.setErrorMessage(refused); // not returned: a row has a `then` of its own, and the promise would chase it
			});
		});
	});
	return (value) => {
		if (value === held) return;
		held = value;
		show(value);
	};
}
