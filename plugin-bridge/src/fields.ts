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

export function addField(setting: Setting, field: Field): void {
	setting.addText((text) => {
		text.setValue(field.value).setPlaceholder(field.placeholder);
		text.inputEl.type = field.type ?? "text";
		text.inputEl.spellcheck = false;
		let held = field.value;
		// `change` comes when the field is left or Enter is pressed
		text.inputEl.addEventListener("change", () => {
			const value = text.getValue().trim();
			const wrong = field.check(value);
			setting.setErrorMessage(wrong);
			if (wrong !== null || value === held) return;
			held = value;
			void field.commit(value).then((refused) => {
				setting.setErrorMessage(refused); // not returned: a row has a `then` of its own, and the promise would chase it
			});
		});
	});
}
