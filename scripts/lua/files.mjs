// The .lua files of the scripts, and their texts as Redis gets them: without comments, and with the parts that they include.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const LUA = fileURLToPath(new URL('../../src/lua/', import.meta.url))

/** Relative to `LUA`, without the parts that scripts include. */
export function luaFiles() {
  return readdirSync(LUA, { recursive: true })
    .map((file) => String(file).replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.lua') && !file.endsWith('.part.lua'))
    .sort()
}

/** Writes a generated file unless it is the same: `npm pack` also runs this, beside programs that read it. */
export function writeGenerated(path, text) {
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text)
}

/**
 * A script. A line `-- include <name>` at the top of its file puts the file <name>.part.lua before it, with functions that
 * scripts share, unless it is already included. Parts include other parts in the same way.
 * @returns its name, its header, the parts that it includes, each after those that it includes itself, its own text, and all
 *   of that in one
 */
export function readScript(file) {
  const name = file.slice(0, -'.lua'.length)
  const [, header, source] = /^--\[\[ (.*?) \]\]\n(.*)$/s.exec(readFileSync(LUA + file, 'utf8')) ?? []
  if (source === undefined) throw new Error(`src/lua/${file} has no header`)
  const parts = new Map()
  const { own } = readIncludes(source, parts)
  return { name, header, parts, own, body: [...parts.values(), { own }].map((part) => part.own).join('') }
}

/** A part, after those that it includes. */
export function readPart(name) {
  const parts = new Map()
  readIncludes(`-- include ${name}\n`, parts)
  return parts
}

/** A text without its includes and comments. Adds the parts that it includes, after those that they include themselves. */
function readIncludes(text, parts) {
  const includes = new Set()
  const own = text.replace(/^-- include (.+)\n/gm, (_, part) => {
    if (!parts.has(part)) parts.set(part, readIncludes(readFileSync(`${LUA}${part}.part.lua`, 'utf8'), parts))
    for (const one of [...parts.get(part).includes, part]) includes.add(one)
    return ''
  })
  const bare = own
    .replace(/^ *--.*\n/gm, '')
    .replace(/\n{2,}/g, '\n')
    .trim()
  return { includes: [...includes], own: `${bare}\n` }
}
