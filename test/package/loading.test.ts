/** What a program loads with the built package: each file and each module of Node costs time at every start. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

const DIST = new URL('../../../dist/', import.meta.url)

/** What one entry imports, directly or not; without what it loads when that is needed. */
class Loaded {
  /** The files of dist, with their code. */
  readonly files = new Map<string, string>()
  readonly modulesOfNode = new Set<string>()

  constructor(entry: string) {
    this.#load(new URL(entry, DIST))
  }

  get bytes(): number {
    return [...this.files.values()].reduce((sum, code) => sum + Buffer.byteLength(code), 0)
  }

  get hasLocks(): boolean {
    return [...this.files.values()].some((code) => code.includes('extends BaseLock'))
  }

  #load(file: URL): void {
    if (this.files.has(file.href)) return
    const code = readFileSync(file, 'utf8')
    this.files.set(file.href, code)
    for (const [, path = ''] of code.matchAll(/(?:from|(?:^|;)import)\s*["'](\.[^"']+)["']/gm))
      this.#load(new URL(path, file))
    // Imported, or by `process.getBuiltinModule`.
    for (const [, name = ''] of code.matchAll(/["']node:([\w/]+)["']/g)) this.modulesOfNode.add(name)
  }
}

describe('loading', () => {
  it('a program loads its entry and a few files that the entries share', () => {
    const most = { 'index.js': 5, 'adapters/ioredis/port.js': 5, 'watchdog-thread.js': 4, 'cli/main.js': 14 }
    for (const [entry, count] of Object.entries(most)) {
      const { size } = new Loaded(entry).files
      assert(size > 1 && size <= count, `${entry} loads ${size} files`)
    }
  })

  it('an adapter and the watchdog thread load nothing of the locks', () => {
    assert(new Loaded('index.js').hasLocks)
    assert(!new Loaded('adapters/ioredis/port.js').hasLocks)
    assert(!new Loaded('watchdog-thread.js').hasLocks)
  })

  it("import 'holdfast' loads at most 360 KB, and of Node nothing that connects, or starts threads or processes", () => {
    const { bytes, modulesOfNode } = new Loaded('index.js')
    assert(bytes > 100_000 && bytes < 360_000, String(bytes))
    assert.deepEqual([...modulesOfNode].sort(), [
      'async_hooks',
      'buffer',
      'crypto',
      'diagnostics_channel',
      'events',
      'fs',
      'os',
      'path',
      'url',
    ])
  })
})
