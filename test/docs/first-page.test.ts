/** What README.md prints first, done in an empty folder with the package as it is published. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { spawnChild } from '../support/processes/child.js'
import { startNpmRegistry } from '../support/servers/npm-registry.js'
import { startRedis } from '../support/servers/redis-server.js'
import { type CodeBlock, codeBlocksOf } from './code-blocks.js'

const run = promisify(execFile)

describe('the first page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-first-page-'))
  after(() => rmSync(folder, { recursive: true, force: true }))

  it('the first page leads to a working lock by its commands and its program, run twice', {
    timeout: 300_000,
  }, async () => {
    const [install, program] = codeBlocksOf('README.md') as [CodeBlock, CodeBlock]
    await using registry = await startNpmRegistry()
    const env = registry.environmentIn(folder)
    await run('bash', ['-e', '-c', install.lines.join('\n')], { cwd: folder, env })

    const redis = await startRedis()
    try {
      const file = join(folder, 'lock.mjs')
      writeFileSync(file, program.lines.join('\n').replace('redis://127.0.0.1:6379', redis.url))
      const startedAt = performance.now()
      await using first = spawnChild(file, [])
      await using second = spawnChild(file, [])
      for (const child of [first, second]) {
        assert.deepEqual(await child.exit, { code: 0, signal: null }, child.stderr)
        assert.equal(child.stdout, 'only one at a time, on all machines\n')
      }
      assert(performance.now() - startedAt >= 2_000, 'each of them works for a second, one after the other')
      assert.deepEqual(await redis.admin.keys('lock:*'), [])
    } finally {
      await redis.stop()
    }
  })
})
