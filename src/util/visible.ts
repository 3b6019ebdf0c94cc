/** Characters that a terminal executes (ESC, C1, DEL, carriage return), or that change the text direction. */
const CONTROL_CHARACTERS = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/gu

/**
 * Makes untrusted text safe to print: the holder of a lock, its name, a server's reply. Control characters become escapes
 * such as `\u001b`, so JSON stays JSON with the same meaning.
 */
export function visible(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Names and labels as one line, without anything that a terminal would execute or that looks like another line. */
export function word(text: string): string {
  return visible(text).replace(
    /[\t\n\u2028\u2029]/g,
    (space) => `\\u${space.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
