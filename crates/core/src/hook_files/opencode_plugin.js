// Loops of dacapo in the sessions of OpenCode. Tells dacapo what happens in a session and does what it answers.
//
// `/ralph` is read from the message itself. It is no command of OpenCode's, because OpenCode runs what stands between
// !` and ` in the arguments of a command in a shell, and a task is text.
import { spawn } from "node:child_process"

const PROGRAM = "@PROGRAM@"
const EVENTS = ["session.idle", "session.error", "session.deleted"]
const COMMAND = /^\s*\/(ralph|cancel-ralph)(\s|$)/

export const Dacapo = async ({ client, directory }) => {
  // What dacapo answers, or why it could not.
  const ask = (args, input) =>
    new Promise((resolve) => {
      const child = spawn(PROGRAM, ["hook", ...args, "--agent", "opencode"], { cwd: directory })
      let out = ""
      let err = ""
      child.stdout.on("data", (bytes) => (out += bytes))
      child.stderr.on("data", (bytes) => (err += bytes))
      child.stdin.on("error", () => {})
      child.on("error", (error) => resolve({ faults: [`${PROGRAM} cannot be started: ${error.message}`] }))
      child.on("close", () => {
        try {
          resolve(out.trim() ? JSON.parse(out) : { faults: err.trim() ? [err.trim()] : [] })
        } catch {
          resolve({ faults: [`${PROGRAM} answered with something that is no JSON`] })
        }
      })
      child.stdin.end(JSON.stringify(input))
    })

  const quietly = async (work) => {
    try {
      return (await work())?.data
    } catch {
      return undefined
    }
  }

  // The agent's own words and what they cost, oldest first.
  const messages = async (id) => {
    const all = (await quietly(() => client.session.messages({ path: { id } }))) ?? []
    const ofAgent = all.filter(({ info }) => info.role === "assistant")
    const words = (parts) => parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
    return ofAgent.map(({ info: { id, time, tokens, cost, modelID }, parts }) => ({
      role: "assistant",
      content: words(parts).join("\n"),
      ...{ id, time, tokens, cost, modelID },
    }))
  }

  // All sessions that there are, or nothing if these may not be all.
  const sessions = async () => {
    const limit = 10000
    const all = await quietly(() => client.session.list({ query: { limit } }))
    return all && all.length < limit ? all.map((session) => session.id) : undefined
  }

  const show = async (answer) => {
    for (const toast of answer.toasts ?? []) await quietly(() => client.tui.showToast({ body: toast }))
    for (const message of answer.faults ?? []) {
      await quietly(() => client.app.log({ body: { service: "dacapo", level: "error", message } }))
      await quietly(() => client.tui.showToast({ body: { title: "dacapo", message, variant: "error" } }))
    }
  }

  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

  const tell = async (name, id, properties) => {
    const known = name === "session.idle" ? { messages: await messages(id), sessions: await sessions() } : {}
    const answer = await ask(["event", name], { session_id: id, cwd: directory, error: properties.error, ...known })
    await show(answer)
    if (answer.prompt) {
      await wait(answer.delay_ms ?? 0)
      const body = { parts: [{ type: "text", text: answer.prompt }] }
      try {
        const sent = await client.session.promptAsync({ path: { id }, body })
        if (sent?.error) throw new Error(JSON.stringify(sent.error))
      } catch (error) {
        await show({ faults: [`the next prompt could not be sent: ${error.message}`] })
        await ask(["event", "prompt.failed"], { session_id: id, cwd: directory, error: { message: error.message } })
      }
    }
  }

  return {
    // OpenCode does not wait for this, so that nothing here holds a session up.
    event: async ({ event }) => {
      if (!EVENTS.includes(event.type)) return
      const id = event.properties.sessionID ?? event.properties.info?.id
      if (id) tell(event.type, id, event.properties).catch((error) => show({ faults: [String(error)] }))
    },
    "chat.message": async (input, output) => {
      const part = output.parts.find((part) => part.type === "text" && !part.synthetic)
      if (!part || !COMMAND.test(part.text)) return
      const question = { session_id: input.sessionID, cwd: directory, prompt: part.text }
      const answer = await ask(["prompt"], { ...question, messages: await messages(input.sessionID) })
      await show(answer)
      const task = answer.hookSpecificOutput?.additionalContext
      const said = answer.reason ?? answer.systemMessage ?? answer.faults?.join("\n") ?? "nothing was done"
      part.text = task ?? `dacapo says: ${said}\n\nRepeat this in one sentence, do nothing else, and stop.`
    },
  }
}
