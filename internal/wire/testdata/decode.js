// Decodes each line of standard input (base64 of one message) as a server in
// JavaScript would, and prints the id, method, name and arguments it finds.
"use strict";

function text(s) {
  return "s" + Array.from(s, (c) => c.codePointAt(0).toString(16).padStart(6, "0")).join("");
}

function number(n) {
  const b = Buffer.alloc(8);
  b.writeDoubleBE(n + 0); // an integer in Python has no negative zero
  return "n" + b.toString("hex");
}

function plain(v) {
  switch (typeof v) {
    case "string":
      return text(v);
    case "number":
      return number(v);
    case "boolean":
      return String(v);
  }
  if (v === null) return "null";
  if (Array.isArray(v)) return "[" + v.map(plain).join(",") + "]";
  return "{" + Object.keys(v).map((k) => text(k) + ":" + plain(v[k])).sort().join(",") + "}";
}

function member(v, name) {
  return typeof v === "object" && v !== null && Object.hasOwn(v, name) ? plain(v[name]) : "absent";
}

const lines = require("fs").readFileSync(0, "latin1").split("\n");
const out = [];
for (const line of lines) {
  if (line === "") continue;
  const bytes = Buffer.from(line, "base64");
  const m = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  out.push([member(m, "id"), member(m, "method"), member(m.params, "name"), member(m.params, "arguments")].join(" "));
}
process.stdout.write(out.join("\n") + "\n");
