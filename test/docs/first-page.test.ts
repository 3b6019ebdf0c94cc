/** What README.md prints first, done in an empty folder with the package as it is published. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { spawnChild } from '../support/child.js'
import { startRedis } from '../support/redis-server.js'
import { type CodeBlock, codeBlocksOf, ROOT } from './code-blocks.js'

const run = promisify(execFile)

describe('the first page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-first-page-'))
  after(() => rmSync(folder, { recursive: true, force: true }))

  it('leads to a working lock: its commands and its code, as printed', { timeout: 300_000 }, async () => {
    const [install, program] = codeBlocksOf('README.md') as [CodeBlock, CodeBlock]
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], {
      cwd: fileURLToPath(ROOT),
    })
    const tarball = join(folder, /"filename": "(.*)"/.exec(stdout)?.[1] ?? '')
    const [command = '', ...args] = install.lines[0]?.replace(/#.*/, '').trim().split(' ') ?? []
    const packages = args.map((arg) => (arg === 'holdfast' ? tarball : arg))
    await run(command, [...packages, '--prefer-offline', '--no-audit', '--no-fund'], { cwd: folder })

    const redis = await startRedis()
    try {
      const file = join(folder, 'lock.mjs')
      writeFileSync(file, program.lines.join('\n').replace('redis://127.0.0.1:6379', redis.url))
      await using first = spawnChild(file, [])
      await using second = spawnChild(file, [])
      for (const child of [first, second]) {
        assert.deepEqual(await child.exit, { code: 0, signal: null }, child.stderr)
        assert.equal(child.stdout, 'only one at a time, on all machines\n')
      }
      assert.deepEqual(await redis.admin.keys('lock:*'), [])
    } finally {
      await redis.stop()
    }
  })
})
