/** The output of `run` and `doctor` has no control characters and no passwords, even from untrusted text. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { withoutUrls } from '../../src/cli/stderr.js'
import { visible } from '../../src/util/visible.js'
import { spawnChild } from '../support/processes/child.js'
import { tieToThisProcess } from '../support/processes/process-exit.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

/** From the compiled test in build/test/cli. */
const MAIN = new URL('../../../dist/cli/main.js', import.meta.url)
const SECRET = 'tr0ub4dor'
/** Sets the window title, clears the screen by C1, and has DEL and text that runs backwards. */
const HOSTILE = '\x1b]0;gone\x07\u009b2J\x7f\u202edlrow\u2066\r'
const CONTROL = /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/u

async function holdfast(args: string[], env: Record<string, string> = {}) {
  const all = { ...process.env, NODE_TEST_CONTEXT: undefined, REDIS_URL: '', HOLDFAST_CONFIG: '', ...env }
  return await new Promise<{ code: number | null; stdout: string; stderr: string; all: string }>((resolve) => {
    const child = execFile(process.execPath, [fileURLToPath(MAIN), ...args], { env: all }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr, all: stdout + stderr }),
    )
    tieToThisProcess(child)
  })
}

function assertPlain(text: string, expected: RegExp): void {
  assert.match(text, expected)
  assert.doesNotMatch(text, CONTROL, JSON.stringify(text))
}

describe('the output of run and doctor', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  it('the output escapes control characters and line feeds in the name of a holder', async () => {
    const holder = `${HOSTILE}\nholdfast: holding lock "taken"`
    await server.admin.multi().hset('taken', holder, 1).pexpire('taken', 60_000).exec()
    const { code, stderr } = await holdfast(['run', 'taken', '--wait', '3s', '--verbose', '--', 'true'], {
      REDIS_URL: server.url,
    })
    assert.equal(code, 75)
    assertPlain(stderr, /held by \\u001b\]0;gone\\u0007\\u009b2J\\u007f\\u202edlrow\\u2066.* holdfast: holding/)
  })

  it('the output escapes control characters in the name of a lock', async () => {
    const name = `lock:${HOSTILE}`
    const { code, stderr } = await holdfast(['run', name, '--verbose', '--', 'true'], { REDIS_URL: server.url })
    assert.equal(code, 0)
    assertPlain(stderr, /acquired lock "lock:\\u001b\]0;gone/)
  })

  it('the output escapes control characters in the command line', async () => {
    for (const args of [
      ['run', 'a', `--${HOSTILE}`],
      ['run', 'a', '--wait', HOSTILE, '--', 'true'],
      ['run', 'a', '--', `no-such-program${HOSTILE}`],
      [HOSTILE],
      ['doctor', HOSTILE],
      ['doctor', '--acl', '--prefix', 'x\u009b\u202e'],
      ['doctor', '--config', `/none/${HOSTILE}.yaml`],
    ]) {
      assertPlain((await holdfast(args, { REDIS_URL: server.url })).all, /\\u/)
    }
  })

  it("the doctor's report and its JSON escape control characters and keep their meaning", async () => {
    await using narrow = await startRedis()
    await narrow.admin.call('ACL', 'SETUSER', 'default', 'resetkeys', '~lock:*')
    const prefix = 'lock:\u009b2J\u202e'
    const env = { REDIS_URL: narrow.url }
    const report = await holdfast(['doctor', '--verbose', '--prefix', prefix], env)
    assertPlain(report.stdout, /no right to .*lock:\\u009b2J\\u202e/)
    const json = await holdfast(['doctor', '--json', '--prefix', prefix], env)
    assertPlain(json.stdout, /lock:\\u009b2J\\u202e/)
    const { checks } = JSON.parse(json.stdout) as { checks: unknown }
    assert.ok(JSON.stringify(checks).includes(prefix), 'the same text once parsed')
  })

  it('the output escapes what a terminal executes and what nobody sees, but no line feed, tab or emoji', () => {
    for (let code = 0; code <= 0xffff; code++) {
      const character = String.fromCharCode(code)
      const isControl = CONTROL.test(character) || (/\p{Cf}/u.test(character) && character !== '\u200d')
      assert.equal(visible(character), isControl ? `\\u${code.toString(16).padStart(4, '0')}` : character)
    }
    assert.equal(visible('a\tb\nc é 🔒 👩‍💻'), 'a\tb\nc é 🔒 👩‍💻')
    assert.equal(visible('lock:a\u200b\u{e0041}'), 'lock:a\\u200b\\udb40\\udc41')
  })
})

describe('a password on the command line or in its environment', () => {
  const files = mkdtempSync(join(tmpdir(), 'holdfast-printing-'))
  after(() => rmSync(files, { recursive: true, force: true }))

  async function expectNone(url: string, code: number): Promise<void> {
    const config = join(files, 'redisson.json')
    writeFileSync(config, JSON.stringify({ singleServerConfig: { address: url } }))
    const runs: [string[], Record<string, string>?][] = [
      [['run', 'a', '--redis', url, '--', 'true'], { DEBUG: '1' }],
      [['run', 'a', '--config', config, '--', 'true']],
      [['doctor', '--verbose'], { REDIS_URL: url }],
      [['doctor', '--json'], { HOLDFAST_CONFIG: config }],
    ]
    await Promise.all(
      runs.map(async ([args, env]) => {
        const run = await holdfast(args, env)
        assert.ok(!run.all.includes(SECRET), `${args} shows it:\n${run.all}`)
        assert.equal(run.code, code, run.all)
      }),
    )
  }

  it('a password is not printed if it is wrong', async () => {
    await using server = await startRedis()
    await expectNone(server.url.replace('//', `//app:${SECRET}@`), 69)
  })

  it('a password is not printed if the server repeats it', async () => {
    await using odd = await startRedis({ args: ['--rename-command', 'AUTH', '', '--rename-command', 'HELLO', ''] })
    await expectNone(odd.url.replace('//', `//app:${SECRET}@`), 69)
  })

  it('a password is not printed if the @ of the address is missing', async () => {
    await expectNone(`redis://:${SECRET}:6379`, 64)
    await expectNone(`redis://app:${SECRET}.redis.example:6379`, 64)
    await expectNone(`redis://redis.example:6379?password=${SECRET}`, 64)
  })

  it('a password is not printed if the URL is in the wrong place', async () => {
    for (const url of [`redis://:${SECRET}@h:1`, `redis://:${SECRET}:6379`, `rediss://h:6379?password=${SECRET}`]) {
      for (const args of [
        ['doctor', url],
        ['demo', url],
        ['run', `--${url}`],
        ['run', 'a', '--config', url, '--', 'true'],
        ['doctor', '--config', url],
      ]) {
        const run = await holdfast(args)
        assert.equal(run.code, 64, run.all)
        assert.ok(!run.all.includes(SECRET), run.all)
      }
    }
    assert.equal(withoutUrls("a 'redis://:x@h:1' b"), "a 'redis://…@h:1' b")
    assert.equal(withoutUrls("a 'redis://:x:6379' b"), "a 'redis://…' b")
    assert.equal(withoutUrls("a 'redis://:x@h:1?password=y' b"), "a 'redis://…' b")
  })

  it('a password is not in the process list while the program runs', {
    skip: process.platform !== 'linux',
  }, async () => {
    await using server = await startRedis()
    await server.admin.call('ACL', 'SETUSER', 'app', 'on', `>${SECRET}`, '~*', '&*', '+@all')
    const url = server.url.replace('//', `//app:${SECRET}@`)
    const child = spawnChild(MAIN, ['run', 'a', '--redis', url, '--', 'sh', '-c', 'echo up; read _'])
    await waitUntil(() => child.stdout.includes('up'), { timeoutMs: 10_000 })
    const commandLine = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8')
    child.endCommands()
    await child.exit
    assert.match(commandLine, /^holdfast run a --redis redis:\/\/…@127\.0\.0\.1:\d+ --/)
    assert.ok(!commandLine.includes(SECRET), commandLine)
  })
})
