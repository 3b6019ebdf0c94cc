/** Each program of this repository says what it does, how long it takes, what it can be told, and how it ends. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const VERIFY = readdirSync(join(ROOT, 'scripts/verify')).map((file) => file.replace('.mjs', ''))
/** Where each reads its options, besides its script. */
const READERS: Readonly<Record<string, string>> = {
  chaos: 'test/harness/chaos/main.ts',
  failover: 'test/harness/failover/main.ts',
  fleet: 'test/harness/fleet/main.ts',
  simulate: 'test/harness/simulation/main.ts',
  bench: 'bench/src/main.ts',
  demo: 'src/cli/demo/options.ts',
}

const PROGRAMS = [
  ...VERIFY.map((name) => ({ name, args: ['scripts/verify.mjs', name], script: `scripts/verify/${name}.mjs` })),
  ...['bench', 'test', 'demo'].map((name) => ({ name, args: [`scripts/${name}.mjs`], script: `scripts/${name}.mjs` })),
]

async function node(...args: string[]): Promise<{ stdout: string; code: number }> {
  try {
    const { stdout } = await run(process.execPath, args, { cwd: ROOT })
    return { stdout, code: 0 }
  } catch (error) {
    const { stdout, code } = error as { stdout: string; code: number }
    return { stdout, code }
  }
}

describe('--help', { concurrency: 3 }, () => {
  for (const { name, args, script } of PROGRAMS) {
    it(`--help of ${name} says what it does, how long it takes, its options and its exit codes`, async () => {
      const { stdout, code } = await node(...args, '--help')
      assert.equal(code, 0)
      assert.match(stdout.trim(), /^(npm|Usage: holdfast)/)
      assert.match(stdout, /\btakes?\b|\blives a minute\b/i)
      assert.match(stdout, /^Exit codes?:?\n +0 /m)
      const sources = [script, READERS[name]].flatMap((file) =>
        file === undefined ? [] : [readFileSync(join(ROOT, file), 'utf8')],
      )
      const options = sources.flatMap((source) => [
        ...source.matchAll(/^ +'?([\w-]+)'?: \{ type: '(?:string|boolean)'/gm),
        ...(/OURS = \[(.*)\]/.exec(source)?.[1] ?? '').matchAll(/--([\w-]+)/g),
      ])
      const missing = options.map(([, option]) => option).filter((option) => !stdout.includes(`--${option}`))
      assert.deepEqual(missing, [])
      assert.ok(options.length > 1)
    })
  }

  it('--help of npm run verify lists all of its programs, and an unknown one is exit code 2', async () => {
    const { stdout, code } = await node('scripts/verify.mjs', '--help')
    assert.equal(code, 0)
    for (const name of VERIFY) assert.match(stdout, new RegExp(`^  ${name} +\\S`, 'm'))
    assert.equal((await node('scripts/verify.mjs', 'nonsense')).code, 2)
    assert.equal((await node('scripts/verify.mjs', 'interop', '--nonsense')).code, 2)
  })
})
