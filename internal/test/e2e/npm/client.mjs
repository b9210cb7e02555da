// A client of the TypeScript SDK. It reads the steps that it has to take with the
// server of its configuration, and prints the messages that it writes and reads, and
// what came of each step.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const print = (o) => console.log(JSON.stringify(o));
const { E2E_CONFIG: config, E2E_ERA: era } = process.env;
const [entry] = Object.values(JSON.parse(readFileSync(config)).mcpServers);
const uri = "demo://x";

// The SDK probes a server in place if the transport is not exactly its own: otherwise with a process of its own.
class Pipes extends StdioClientTransport {}

function connect() {
  if (entry.command) return new Pipes({ ...entry, env: { ...process.env, ...entry.env }, stderr: "inherit" });
  if (entry.type === "sse") return new SSEClientTransport(new URL(entry.url));
  return new StreamableHTTPClientTransport(new URL(entry.url));
}

const transport = connect();
const send = transport.send.bind(transport);
transport.send = (message, options) => {
  print({ sent: message });
  return send(message, options);
};
// The transport reads and the client sets onmessage; the client may read it, too.
let reader;
Object.defineProperty(transport, "onmessage", {
  get: () => reader,
  set(next) {
    const read = next?.read ?? next;
    reader = read && ((message, extra) => (print({ received: message }), read(message, extra)));
    if (read) reader.read = read;
  },
});

const client = new Client(
  { name: "client", version: "1" },
  {
    capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } },
    versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
  },
);
client.setRequestHandler("sampling/createMessage", () => ({ role: "assistant", model: "m", content: { type: "text", text: "said" } }));
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "n" } }));
client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///work", name: "work" }] }));

// Resolves when each of the notifications has arrived.
function arrival(...methods) {
  return Promise.all(methods.map((m) => new Promise((done) => client.setNotificationHandler(m, () => done()))));
}

const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
const progress = { onprogress() {} };
let listen;

const steps = {
  connect: () => client.connect(transport),
  async lists() {
    await client.listTools();
    await client.listResources();
    await client.listResourceTemplates();
    await client.listPrompts();
  },
  echo: () => call("echo", { text: "\u00e9 \u2028 \\ \"" }),
  fail: () => call("fail"),
  unknown: () => call("no-such-tool"),
  read: () => client.readResource({ uri }),
  "read nothing": () => client.readResource({ uri: "demo://none" }),
  prompt: () => client.getPrompt({ name: "greet", arguments: { who: "you" } }),
  complete: () => client.complete({ ref: { type: "ref/prompt", name: "greet" }, argument: { name: "who", value: "" } }),
  many: () => Promise.all(Array.from({ length: 8 }, (_, i) => call("echo", { text: `${i}` }))).then(() => {}),
  slow: () => call("slow", { steps: 4 }, progress),
  sampling: () => call("ask", { what: "sampling" }),
  elicitation: () => call("ask", { what: "elicitation" }),
  roots: () => call("ask", { what: "roots" }),
  async subscribe() {
    if (era !== "modern") return client.subscribeResource({ uri });
    listen = await client.listen({ resourceSubscriptions: [uri], toolsListChanged: true });
  },
  async change() {
    const both = arrival("notifications/resources/updated", "notifications/tools/list_changed");
    await call("change");
    await both;
  },
  unsubscribe: () => (listen ? listen.close() : client.unsubscribeResource({ uri })),
  async cancel() {
    const stop = new AbortController();
    const options = { signal: stop.signal, onprogress: () => stop.abort("enough") };
    await call("slow", { steps: 1000 }, options).catch(() => {});
    return call("cancelled");
  },
  cancelled: () => call("cancelled"),
  close: async () => {
    await transport.terminateSession?.();
    await client.close();
  },
};

for await (const step of createInterface({ input: process.stdin })) {
  try {
    print({ step, result: (await steps[step]()) ?? null });
  } catch (e) {
    print({ step, error: `${e?.message}` });
  }
}
