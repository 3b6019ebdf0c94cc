// The .lua files of the scripts, and their texts as Redis gets them.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const LUA = fileURLToPath(new URL('../src/lua/', import.meta.url))

/** Relative to `LUA`, without the parts that scripts include. */
export function luaFiles() {
  return readdirSync(LUA, { recursive: true })
    .map((file) => String(file).replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.lua') && !file.endsWith('.part.lua'))
    .sort()
}

/**
 * A line `-- include <name>` inserts the file <name>.part.lua, with functions that scripts share, unless it is already
 * included. Parts include other parts in the same way.
 */
export function withParts(text, included = new Set()) {
  return text.replace(/^-- include (.+)\n/gm, (_, part) => {
    if (included.has(part)) return ''
    included.add(part)
    return `${withParts(readFileSync(`${LUA}${part}.part.lua`, 'utf8'), included)}\n`
  })
}

/** The name of a script, its header, and its text without that, with all that it includes. */
export function readScript(file) {
  const name = file.slice(0, -'.lua'.length)
  const [, header, own] = /^--\[\[ (.*?) \]\]\n(.*)$/s.exec(readFileSync(LUA + file, 'utf8')) ?? []
  if (own === undefined) throw new Error(`src/lua/${file} has no header`)
  return { name, header, body: withParts(own).replace(/\n{3,}/g, '\n\n') }
}
