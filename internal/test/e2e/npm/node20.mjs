// Node.js before 22 has no fs.globSync, which the conformance suite imports for
// commands that no test here runs. `node --import` of this file lets it start.
import fs from "node:fs";
import { register } from "node:module";

const hook = `export async function resolve(specifier, context, next) {
  if (specifier !== "fs" || !context.parentURL?.includes("/@modelcontextprotocol/conformance/")) return next(specifier, context);
  const text = 'export * from "node:fs"; export const globSync = undefined;';
  return { url: "data:text/javascript," + encodeURIComponent(text), shortCircuit: true };
}`;
if (!fs.globSync) register("data:text/javascript," + encodeURIComponent(hook));
