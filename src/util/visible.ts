/** What a terminal executes instead of showing (ESC, C1, DEL, carriage return), and what changes the text direction. */
const CONTROL_CHARACTERS = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/gu

/**
 * Makes untrusted text safe to print: the holder of a lock, its name, a server's reply. Control characters become escapes
 * such as `\u001b`, so JSON stays JSON with the same meaning.
 */
export function visible(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
