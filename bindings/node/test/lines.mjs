/** The lines of a stream, ended by line feeds alone: readline takes U+2028 for an end too, which JSON may hold. */
export async function* lines(stream) {
  let rest = ''
  stream.setEncoding('utf8')
  for await (const chunk of stream) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop()
    yield* parts
  }
}

/** Answers requests from stdin, a line each, by acts of their names, until it ends. */
export async function serve(acts) {
  for await (const line of lines(process.stdin)) {
    const { do: act, ...request } = JSON.parse(line)
    let answer
    try {
      answer = { ok: await acts[act](request) }
    } catch (error) {
      answer = { error: error.code ?? String(error), revision: error.revision, current: error.current }
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`)
  }
}
