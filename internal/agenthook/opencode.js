// ThoughtGate's plugin for opencode. It has ThoughtGate judge what opencode is about to do with
// its own tools. `tgctl protect` and `tgctl wrap` write it; `tgctl unprotect` and `tgctl unwrap`
// remove it. Do not edit it: it is compared with what was written.
import { spawn } from "node:child_process"

const entries = {}
// end of the entries

// run has tg-shim judge or report an event. It fails if tg-shim can't be started, is killed or
// refuses, and a failure before a tool keeps opencode from using it.
function run(event) {
  const entry = entries.hooks?.[event.hook_event_name]?.[0]
  if (!entry) throw new Error("Not executed: ThoughtGate's plugin is incomplete. Write it again with `tgctl protect opencode`, or remove it with `tgctl unprotect`.")
  return new Promise((resolve, reject) => {
    const child = spawn(entry.command, entry.args, { stdio: ["pipe", "pipe", "pipe"] })
    const late = setTimeout(() => child.kill("SIGKILL"), entry.timeout * 1000)
    const said = { stdout: [], stderr: [] }
    for (const name of ["stdout", "stderr"]) child[name].on("data", (part) => said[name].push(part))
    const text = (name) => Buffer.concat(said[name]).toString("utf8").trim()
    const failed = (why) => {
      clearTimeout(late)
      reject(new Error(why || "Not executed: ThoughtGate's tg-shim has failed."))
    }
    child.on("error", (error) => failed(`Not executed: ThoughtGate's tg-shim can't be started (${error.message}).`))
    child.on("close", (code) => {
      if (code !== 0) return failed(text("stderr"))
      clearTimeout(late)
      resolve(text("stdout"))
    })
    child.stdin.on("error", () => {}) // tg-shim has ended, and its exit code says how
    child.stdin.end(JSON.stringify(event))
  })
}

const about = (name, input, directory) => ({
  hook_event_name: name, session_id: input.sessionID, tool_use_id: input.callID, cwd: directory, tool_name: input.tool,
})

export const ThoughtGate = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const answer = await run({ ...about("PreToolUse", input, directory), tool_input: output.args ?? {} })
    if (answer === "") return
    const changed = JSON.parse(answer).input
    if (changed === null || typeof changed !== "object") throw new Error("Not executed: ThoughtGate's answer is not understood.")
    for (const name of Object.keys(output.args)) delete output.args[name]
    Object.assign(output.args, changed) // opencode keeps the object that it has handed out
  },
  "tool.execute.after": async (input, output) => {
    const result = output.output ?? output.content ?? ""
    await run({ ...about("PostToolUse", input, directory), tool_input: input.args ?? {}, tool_response: result }).catch(() => {})
  },
})
