/**
 * Inside the in-memory Redis, as in Redis, a text is a sequence of bytes: a string in which each character is one. Outside
 * it is UTF-8.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is what both spell alike
const ASCII = /^[\x00-\x7f]*$/

export function toBytes(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}

export function fromBytes(bytes: string): string {
  return ASCII.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8')
}
