/** Follows "First steps" of README.md as a newcomer does: its commands exactly as printed, in an empty folder. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { startNpmRegistry } from '../support/npm-registry.js'
import { startRedis } from '../support/redis-server.js'
import { codeBlocksOf, readPage } from './code-blocks.js'

/** Installing takes a while on a slow network. */
const FIVE_MINUTES_MS = 300_000

it('the first steps of README.md lead a newcomer to a working lock', { timeout: FIVE_MINUTES_MS }, async () => {
  const heading = lineOf('## First steps')
  const [commands, shown] = codeBlocksOf('README.md').filter(({ line }) => line > heading)
  assert(commands?.language === 'sh' && shown?.language === 'text')
  await using registry = await startNpmRegistry()
  await using redis = await startRedis()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-first-steps-'))
  try {
    const { stdout } = await promisify(execFile)('bash', ['-e', '-c', commands.lines.join('\n')], {
      cwd: folder,
      env: {
        ...cleanEnvironment(),
        REDIS_URL: redis.url,
        npm_config_registry: registry.url,
        npm_config_cache: join(folder, 'npm-cache'), // a version of the package that was packed before must not be found
        npm_config_loglevel: 'error',
      },
    })
    const printed = stdout.slice(stdout.indexOf('process ')).trimEnd().split('\n')
    const pids = [...new Set(printed.map((line) => /^process (\d+)/.exec(line)?.[1]))]
    const named = (lines: readonly string[], ids: readonly unknown[]): string[] =>
      lines.map((line) => line.replace(/\d+/, (id) => `<${ids.indexOf(id)}>`))
    const shownPids = [...new Set(shown.lines.map((line) => /\d+/.exec(line)?.[0]))]
    assert.deepEqual(named(printed, pids), named(shown.lines, shownPids))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

function lineOf(text: string): number {
  const index = readPage('README.md').split('\n').indexOf(text)
  assert.notEqual(index, -1, `README.md has no ${text}`)
  return index + 1
}

/** Without what npm and the test runner set for this process, and without the programs of this repository. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_)/i.test(name)))
  const path = (env['PATH'] ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules'))
  return { ...env, PATH: [dirname(process.execPath), ...path].join(delimiter) }
}
