/** "In an hour": the pages that lead from another tool, followed by their commands alone, with the package as published. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { startNpmRegistry } from '../support/servers/npm-registry.js'
import { startRedis } from '../support/servers/redis-server.js'
import { codeBlocksOf, readPage } from './code-blocks.js'

const run = promisify(execFile)
const PAGES = ['docs/coming-from-node-libraries.md', 'docs/coming-from-redisson.md', 'docs/recipes/cron-once.md']
const HEADING = '## In an hour'
const SHOWN_URL = 'redis://127.0.0.1:6379'

/** The commands of the section, and what the page says that they print. */
function pathOf(page: string): { commands: string; printed: string[] } {
  const lines = readPage(page).split('\n')
  const from = lines.indexOf(HEADING)
  const length = lines.slice(from + 1).findIndex((line) => line.startsWith('## '))
  const blocks = codeBlocksOf(page).filter(({ line }) => line > from && line <= from + length)
  const linesOf = (wanted: string): string[] =>
    blocks.filter(({ language }) => language === wanted).flatMap((block) => block.lines)
  return { commands: linesOf('sh').join('\n'), printed: linesOf('') }
}

/** Without what differs from run to run: times, and the name of the host. */
function withoutTimes(line: string): string {
  return line
    .replace(/[\d.]+m?s\b/g, '1s')
    .replace(/\S+(: echo)/, 'host$1')
    .replace(/ +/g, ' ')
}

describe('the commands of "In an hour" lead to its end', () => {
  for (const page of PAGES) {
    it(`the commands of "In an hour" in ${page} lead to its end`, { timeout: 300_000 }, async () => {
      const { commands, printed } = pathOf(page)
      assert(commands.includes(SHOWN_URL) && printed.length > 0)
      const folder = mkdtempSync(join(tmpdir(), 'holdfast-path-'))
      await using registry = await startNpmRegistry()
      const redis = await startRedis()
      try {
        const script = commands.replaceAll(SHOWN_URL, redis.url)
        const { stdout } = await run('bash', ['-e', '-c', script], { cwd: folder, env: registry.environmentIn(folder) })
        const said = stdout.trim().split('\n')
        assert.deepEqual(said.map(withoutTimes).toSorted(), printed.map(withoutTimes).toSorted())
        for (const [at, line] of said.entries()) {
          if (line.endsWith('begins')) assert.equal(said[at + 1], line.replace('begins', 'ends'), stdout)
        }
        for (const key of await redis.admin.keys('lock:*')) assert((await redis.admin.pttl(key)) > 0, `${key} ends`)
      } finally {
        await redis.stop()
        rmSync(folder, { recursive: true, force: true })
      }
    })
  }
})
