/**
 * Characters that a terminal executes (ESC, C1, DEL, carriage return), that change the text direction, or that nobody sees. Emoji
 * need the joiner U+200D.
 */
const CONTROL_CHARACTERS = /(?![\t\n\u200d])[\p{Cc}\p{Cf}]/gu

/**
 * Makes untrusted text safe to print: the holder of a lock, its name, a server's reply. Control characters become escapes
 * such as `\u001b`, so JSON stays JSON with the same meaning.
 */
export function visible(text: string): string {
  return text.replace(CONTROL_CHARACTERS, escaped)
}

/** `inspect` of `node:util`. */
export type Inspect = (shown: object, options?: object) => string

/** Names the method that says what `console.log` shows. */
export const SHOWN: unique symbol = Symbol.for('nodejs.util.inspect.custom')

/** Names and labels as one line, without anything that a terminal would execute or that looks like another line. */
export function word(text: string): string {
  return visible(text).replace(/[\t\n\u2028\u2029]/g, escaped)
}

/** As in JSON: each of its units. */
function escaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')
}
