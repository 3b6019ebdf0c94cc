/** What a program loads with the built package: each file costs time at every start. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

const DIST = new URL('../../../dist/', import.meta.url)

/** A file of dist with those that it imports, but not what it loads when that is needed. */
function filesOf(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found
  found.add(file)
  const code = readFileSync(new URL(file, DIST), 'utf8')
  for (const [, path = ''] of code.matchAll(/(?:from|^import|;import)\s*["'](\.[^"']+)["']/gm))
    filesOf(new URL(path, new URL(file, DIST)).href.slice(DIST.href.length), found)
  return found
}

describe('loading', () => {
  it('a program loads its entry and a few files that the entries share', () => {
    const most = { 'index.js': 5, 'adapters/ioredis/port.js': 5, 'watchdog-thread.js': 3, 'cli/main.js': 14 }
    for (const [entry, count] of Object.entries(most)) {
      const files = [...filesOf(entry)]
      assert(files.length > 1 && files.length <= count, `${entry} loads ${files.length}: ${files.join(', ')}`)
    }
  })

  it('an adapter and the watchdog thread load nothing of the locks', () => {
    const haveLocks = (file: string): boolean => readFileSync(new URL(file, DIST), 'utf8').includes('extends BaseLock')
    assert.equal([...filesOf('index.js')].filter(haveLocks).length, 1)
    for (const entry of ['adapters/ioredis/port.js', 'watchdog-thread.js'])
      assert.deepEqual([...filesOf(entry)].filter(haveLocks), [])
  })
})
