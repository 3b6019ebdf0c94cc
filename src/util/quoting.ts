// Untrusted text in commands to paste.
import { Buffer } from 'node:buffer'
import { word } from './visible.js'

/** One word for a shell; `$'…'` can have control characters as escapes, which are not executed when it is shown. */
export function forShell(text: string): string {
  if (/^[\w:.@/+][\w:.@/+-]*$/.test(text)) return text
  const plain = text.replace(/['\\]/g, '\\$&')
  return word(text) === text && !text.includes("'") ? `'${text}'` : `$'${word(plain)}'`
}

/** One word for redis-cli, without a space at which a line could be wrapped. Letters of any language stay readable. */
export function forRedisCli(text: string): string {
  if (/^[^\s"'\\\p{C}]+$/u.test(text)) return text
  const escaped = (character: string): string => {
    if (character === '"' || character === '\\') return `\\${character}`
    return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
  }
  return `"${text.replace(/["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S}]/gu, escaped)}"`
}
