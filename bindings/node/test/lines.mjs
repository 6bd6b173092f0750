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
