// Some proxies of hosted clusters read each script, and refuse it unless every key of a command is written KEYS[n], with a
// number. So a function gets `KEYS` instead of its keys: where the source has `take(KEYS[1], lease)`, `take(KEYS, lease)` is
// sent, and a function with KEYS[1] in the place of its first parameter. Functions that a script does not call are not sent.
//
// In a call, keys come first, and all calls of a function in one script have the same ones. For keys that are not written
// KEYS[n] in the source, a block begins with `local KEYS = { … }`.

/**
 * @param text  a script after the functions that it includes, indented
 * @param file  for errors
 * @returns the same as it is sent
 */
export function withLiteralKeys(text, file) {
  const names = [...text.matchAll(/^local function (\w+)/gm)].map(([, name]) => name)
  // A caller is below what it calls, and its own keys have to be known first.
  return names.reduceRight((rewritten, name) => withKeysOf(name, rewritten, file), text)
}

function withKeysOf(name, text, file) {
  const definition = new RegExp(`^local function ${name}\\(([^)]*)\\)\n(.*?)^end\n`, 'ms')
  const call = new RegExp(`(?<!function )\\b${name}\\(((?:KEYS\\[\\d+\\](?:, )?)*)`, 'g')
  const given = new Set([...text.matchAll(call)].map(([, keys]) => keys.replace(/, $/, '')))
  if (given.size > 1) throw new Error(`src/lua/${file} calls ${name} with different keys: ${[...given].join(' and ')}`)
  const [keys] = given
  if (keys === undefined) return text.replace(definition, '')
  if (keys === '') return text
  const literals = keys.split(', ')
  return text
    .replace(call, (_, leading) => `${name}(KEYS${leading.endsWith(', ') ? ', ' : ''}`)
    .replace(definition, (_, all, body) => {
      const parameters = all.split(', ')
      const others = parameters.splice(literals.length)
      const written = parameters.reduce((code, parameter, n) => replaceName(code, parameter, literals[n]), body)
      return `local function ${name}(${['KEYS', ...others].join(', ')})\n${written}end\n`
    })
}

/** Replaces a variable, and not the same word in a text or a field. */
function replaceName(code, name, literal) {
  return code.replace(new RegExp(`'[^'\n]*'|(?<![\\w.])${name}\\b`, 'g'), (found) => (found === name ? literal : found))
}
