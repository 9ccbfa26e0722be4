/** What sentences are made of: numbers, endings, and text from outside that must not spoil the page. */

export const number = new Intl.NumberFormat("en");

export function count(of: number, one: string, many = `${one}s`): string {
	return `${number.format(of)} ${of === 1 ? one : many}`;
}

export function more(of: number): string {
	return `And ${number.format(of)} more.`;
}

export function capital(text: string): string {
	return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** With a full stop at the end, whatever it had. */
export function sentence(text: string): string {
	const bare = text.trim();
	return /[.!?]$/.test(bare) ? bare : `${bare}.`;
}

/** What a page obeys or leaves out without showing it. Joiners and styles of emoji stay: nothing is read wrongly by them. */
const UNSEEN = /(?!\t|\n|\u200c|\u200d|[\ufe00-\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Text from outside as it is, but that letters which would not show are spelled out. */
export function visible(text: string): string {
	return text.replace(UNSEEN, (sign) => {
		const code = (sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
		return `⟨U+${code}⟩`;
	});
}

/** Text from outside, on one line and not too long; the middle goes, as a path is known by its ends. */
export function short(text: string, most = 100): string {
	const flat = text.replace(UNSEEN, " ").replace(/[\t\n]+/g, " ").trim();
	if (flat.length <= most) return flat;
	const half = Math.floor((most - 1) / 2);
	return `${flat.slice(0, half)}…${flat.slice(-half)}`;
}
