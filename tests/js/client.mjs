// Holds one conversation with a server through a stock TypeScript client, and prints what it heard as one line of JSON.
//
// Read from standard input: {"sdk": "1" | "2" | "2 auto", "script": [{"tool", "arguments"}, ...], and either
// "url" and "token", or "command", "args", "env" and "cwd"}.

import { readFileSync } from 'node:fs';
import { format } from 'node:util';

const order = JSON.parse(readFileSync(0, 'utf8'));
const name = { name: `typescript ${order.sdk}`, version: '0' };
const { Client, StreamableHTTPClientTransport, StdioClientTransport } = await stock(order.sdk);

async function stock(sdk) {
  const parts =
    sdk === '1'
      ? ['sdk/client/index.js', 'sdk/client/streamableHttp.js', 'sdk/client/stdio.js']
      : ['client', 'client/stdio'];
  return Object.assign({}, ...(await Promise.all(parts.map((part) => import(`@modelcontextprotocol/${part}`)))));
}

function transport() {
  if (!order.url) {
    const { command, args, env, cwd } = order;
    return new StdioClientTransport({ command, args, env, cwd });
  }
  const headers = { Authorization: `Bearer ${order.token}` };
  return new StreamableHTTPClientTransport(new URL(order.url), { requestInit: { headers } });
}

/** Connect, use, close; the revision that was negotiated is set on the client. */
async function connected(use) {
  const client = new Client(name, { versionNegotiation: { mode: order.sdk === '2 auto' ? 'auto' : 'legacy' } });
  // whatever reaches the protocol and is none of it, such as a stray line on stdout
  client.onerror = (error) => heard.noise.push(format(error));
  const way = transport();
  // SDK 1 tells the transport alone what was negotiated
  const told = way.setProtocolVersion?.bind(way);
  way.setProtocolVersion = (version) => {
    heard.revision = version;
    told?.(version);
  };
  await client.connect(way);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

async function call(client, { tool, arguments: given }) {
  try {
    return await client.callTool({ name: tool, arguments: given });
  } catch (error) {
    // SDK 1 puts the code in front of the server's words
    return { error: { code: error.code, message: error.message.replace(/^MCP error -?\d+: /, '') } };
  }
}

const heard = { noise: [] };
await connected(async (client) => {
  heard.revision = client.getNegotiatedProtocolVersion?.() ?? heard.revision;
  heard.server = client.getServerVersion();
  heard.instructions = client.getInstructions();
  heard.tools = (await client.listTools()).tools;
  heard.answers = [];
  for (const line of order.script) heard.answers.push(await call(client, line));
});
heard.again = await connected((client) => call(client, order.script[0]));
console.log(JSON.stringify(heard));
