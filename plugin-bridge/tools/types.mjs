// Writes src/protocol.types.ts from the schema that the daemon owns. `--check`: fails if the file is not up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SCHEMA = fileURLToPath(new URL("../../sidecar/bridge/pipe-protocol.schema.json", import.meta.url));
const TYPES = fileURLToPath(new URL("../src/protocol.types.ts", import.meta.url));

/** The text of protocol.types.ts for a schema. */
export function typesOf(schema) {
	const defs = schema.$defs;
	const names = Object.keys(defs);
	const plain = names.filter((name) => /^[a-z]+(\.(given|data))?$/.test(name) && !FRAMES.has(name));
	const methods = defs.request.properties.method.enum;
	const events = defs.event.properties.method.enum;
	return [
		"// Made by `npm run types` from sidecar/bridge/pipe-protocol.schema.json; don't edit by hand.",
		...plain.map((name) => `export type ${typeName(name)} = ${typeOf(defs[name], "")};`),
		"/** What the plugin asks, and what it gets. */",
		"export interface Methods {",
		...methods.map((name) => {
			const params = typeOf(defs[`${name}.params`], "\t");
			return `\t"${name}": { params: ${params}; result: ${typeOf(defs[`${name}.result`], "\t")} };`;
		}),
		"}",
		"/** What the daemon tells unasked. */",
		"export interface Events {",
		...events.map((name) => `\t"${name}": ${typeOf(defs[`event.${name}`], "\t")};`),
		"}",
		"",
	].join("\n");
}

const FRAMES = new Set(["request", "success", "failure", "event", "id"]);

function typeName(name) {
	return `Wire${name
		.split(/[./]/)
		.map((part) => part[0].toUpperCase() + part.slice(1))
		.join("")}`;
}

function typeOf(schema, indent) {
	if (schema.$ref) return typeName(schema.$ref.replace("#/$defs/", "").replaceAll("~1", "/"));
	if ("const" in schema) return JSON.stringify(schema.const);
	if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
	const types = [schema.type].flat();
	if (types[0] === undefined && schema.anyOf) return schema.anyOf.map((one) => typeOf(one, indent)).join(" | ");
	return types.map((type) => single(type, schema, indent)).join(" | ");
}

function single(type, schema, indent) {
	if (type === "integer" || type === "number") return "number";
	if (type === "array") return `(${typeOf(schema.items, indent)})[]`;
	if (type !== "object") return type;
	if (!schema.properties) return `Record<string, ${typeOf(schema.additionalProperties, indent)}>`;
	const fields = Object.entries(schema.properties);
	if (fields.length === 0) return "Record<string, never>";
	const required = new Set(schema.required);
	const inner = `${indent}\t`;
	const lines = fields.map(([name, of]) => `${inner}${name}${required.has(name) ? "" : "?"}: ${typeOf(of, inner)};`);
	return `{\n${lines.join("\n")}\n${indent}}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const made = typesOf(JSON.parse(readFileSync(SCHEMA, "utf8")));
	if (!process.argv.includes("--check")) writeFileSync(TYPES, made);
	else if (readFileSync(TYPES, "utf8") !== made) {
		console.error("src/protocol.types.ts is not what the schema says; run npm run types");
		process.exitCode = 1;
	}
}
