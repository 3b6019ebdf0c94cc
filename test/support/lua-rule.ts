/** Commands without a key. */
const KEYLESS = new Set(['info', 'publish', 'spublish', 'time'])
/** Those of whose arguments all are keys. */
const ALL_KEYS = new Set(['del'])
const KEY = /^KEYS\[\d+\]$/

/**
 * The rule by which proxies of hosted clusters (Alibaba Cloud, Tencent Cloud) read a script: a call of Redis names its
 * command in place, each of its keys is written KEYS[n] with a number, and no other call of Redis is inside it.
 * @returns the first call that breaks it; undefined if there is none
 */
export function offenceOf(text: string): string | undefined {
  for (const { index } of text.matchAll(/redis\.p?call\b/g)) {
    const call = callAt(text, index)
    const [, command = '', first = '', rest = ''] = /^redis\.p?call\('(\w+)'(?:, ([^,]*))?(.*)\)$/s.exec(call) ?? []
    if (command === '' || call.lastIndexOf('redis.') > 0) return call
    const keys = ALL_KEYS.has(command) ? [first, ...rest.split(', ').slice(1)] : [first]
    if (!KEYLESS.has(command) && !keys.every((key) => KEY.test(key))) return call
  }
  return undefined
}

/** From the beginning of a call to its closing parenthesis. */
function callAt(text: string, start: number): string {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    if (text[at] === '(') depth++
    if (text[at] === ')' && --depth === 0) return text.slice(start, at + 1)
  }
  return text.slice(start)
}
