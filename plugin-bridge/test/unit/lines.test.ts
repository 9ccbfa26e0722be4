import { describe, expect, it } from "vitest";

import { LineSplitter } from "../../src/lines";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("cutting bytes into lines", () => {
	it("gives the same lines however the bytes are cut", () => {
		const whole = bytes('{"a": "für 笔记 🔭"}\r\n\nsecond\nhalf');
		for (let size = 1; size <= whole.length; size += 1) {
			const splitter = new LineSplitter();
			const lines: string[] = [];
			for (let at = 0; at < whole.length; at += size) lines.push(...splitter.push(whole.subarray(at, at + size)));
			expect(lines).toEqual(['{"a": "für 笔记 🔭"}', "", "second"]);
			expect(splitter.rest()).toBe("half");
		}
	});

	it("takes a line of just the limit, leaves a longer one out, and goes on", () => {
		const splitter = new LineSplitter(8);
		expect(splitter.push(bytes("12345678\n"))).toEqual(["12345678"]);
		expect(splitter.push(bytes("123456789\nnext\n"))).toEqual(["next"]);
		expect(splitter.push(bytes("aaaaaa"))).toEqual([]);
		expect(splitter.push(bytes("aaaaaa"))).toEqual([]);
		expect(splitter.push(bytes("\nb\n"))).toEqual(["b"]);
		expect(splitter.leftOut).toBe(2);
		expect(splitter.rest()).toBeNull();
	});

	it("takes a line of 1 MiB that comes in pieces", () => {
		const splitter = new LineSplitter();
		const long = "x".repeat((1 << 20) - 2) + "é";
		const raw = bytes(`${long}\n`);
		const lines: string[] = [];
		for (let at = 0; at < raw.length; at += 65_536) lines.push(...splitter.push(raw.subarray(at, at + 65_536)));
		expect(lines).toEqual([long]);
	});
});
