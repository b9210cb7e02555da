// A server of the TypeScript SDK behind an address, for both eras: in the legacy
// one with sessions and an event store. It prints its port.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import { createMcpHandler, inputRequired, isLegacyRequest, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const uri = "demo://x";
const text = (t) => ({ content: [{ type: "text", text: t }] });

// Calls that were cancelled, and who waits for one, by era.
const cancelled = { legacy: 0, modern: 0 };
const noted = {};

// A moment, or less if the call is cancelled.
function pause(signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, 30);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}

const asks = {
  sampling: () => inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: "say" } }], maxTokens: 10 }),
  elicitation: () => inputRequired.elicit({ message: "name?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } }),
  roots: () => inputRequired.listRoots(),
};

function build({ era }) {
  const server = new McpServer(
    { name: "typescript", version: "1" },
    { capabilities: { tools: { listChanged: true }, resources: { subscribe: true }, prompts: {}, completions: {}, logging: {} } },
  );
  server.registerTool("echo", { description: "Returns \u00e9 & <text>", inputSchema: z.object({ text: z.string() }) }, ({ text: t }) => text(t));
  server.registerTool("fail", {}, () => ({ ...text("no"), isError: true }));
  server.registerTool("slow", { inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, { mcpReq }) => {
    const { progressToken } = mcpReq._meta ?? {};
    for (let progress = 1; progress <= steps; progress++) {
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: steps } });
      await pause(mcpReq.signal);
      if (mcpReq.signal.aborted) {
        cancelled[era]++;
        noted[era]?.();
        break;
      }
    }
    return text("done");
  });
  server.registerTool("cancelled", {}, async () => {
    if (cancelled[era] === 0) await new Promise((done) => (noted[era] = done));
    const n = cancelled[era];
    cancelled[era] = 0;
    return text(`${n}`);
  });
  server.registerTool("ask", { inputSchema: z.object({ what: z.string() }) }, ({ what }, { mcpReq }) => {
    const answer = mcpReq.inputResponses?.[what];
    if (!answer) return inputRequired({ inputRequests: { [what]: asks[what]() }, requestState: "asked" });
    return text(JSON.stringify(answer));
  });
  server.registerTool("change", {}, async () => {
    if (era === "modern") {
      modern.notify.resourceUpdated(uri);
      modern.notify.toolsChanged();
    } else {
      await server.server.sendResourceUpdated({ uri });
      server.sendToolListChanged();
    }
    return text("changed");
  });
  server.registerResource("x", uri, { mimeType: "text/plain" }, () => ({ contents: [{ uri, text: "x \u2028" }] }));
  server.registerPrompt("greet", { argsSchema: z.object({ who: z.string() }) }, ({ who }) => ({
    messages: [{ role: "user", content: { type: "text", text: `hello ${who}` } }],
  }));
  server.server.setRequestHandler("completion/complete", () => ({ completion: { values: ["a", "b"] } }));
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
  return server;
}

class Events {
  all = [];
  async storeEvent(stream, message) {
    this.all.push({ stream, message });
    return `${this.all.length - 1}`;
  }
  async getStreamIdForEventId(id) {
    return this.all[id]?.stream;
  }
  async replayEventsAfter(last, { send }) {
    const { stream } = this.all[last];
    for (let i = +last + 1; i < this.all.length; i++) {
      if (this.all[i].stream === stream && this.all[i].message.jsonrpc) await send(`${i}`, this.all[i].message);
    }
    return stream;
  }
}

const modern = createMcpHandler(build, { legacy: "reject" });
const serveModern = toNodeHandler(modern);
const sessions = new Map();

async function serveLegacy(req, res, body) {
  let transport = sessions.get(req.headers["mcp-session-id"]);
  if (!transport && req.headers["mcp-session-id"]) return res.writeHead(404).end();
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new Events(),
      retryInterval: 100,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await build({ era: "legacy" }).connect(transport);
  }
  await transport.handleRequest(req, res, body);
}

const http = createServer(async (req, res) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks)) : undefined;
  const legacy = req.method !== "POST" || (await isLegacyRequest(await toWebRequest(req, body)));
  await (legacy ? serveLegacy : serveModern)(req, res, body);
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
