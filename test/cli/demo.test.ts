/** `holdfast demo`: its output, its exit codes, and what it leaves behind. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { resultOf } from '../../src/cli/demo/flash-sale-result.js'
import { sampleLock } from '../../src/cli/demo/sample-lock.js'
import { timeline } from '../../src/cli/demo/timeline.js'
import { Terminal } from '../../src/cli/terminal.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { tieToThisProcess } from '../support/processes/process-exit.js'
import { startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
const SMALL = ['--stock', '60', '--processes', '3']
const LONG = ['--stock', '5000', '--processes', '3']
const LOCKED_SALE = 'The same with Holdfast'

interface Summary {
  processes: number
  stock: number
  unlocked: { sold: number; oversold: number }
  locked: { sold: number; oversold: number; atOnce: number; perSecond: number; waitP50Ms: number; waitP99Ms: number }
}

test('the demo oversells without the lock and never with it, on a private Redis that it stops', async () => {
  await using demo = new Demo([...SMALL, '--json'])
  assert.equal(await demo.exitCode, 0, demo.stderr)
  assertSold(demo.summary, { stock: 60, processes: 3 })
  const port = Number(/private redis-server on 127\.0\.0\.1:(\d+)/.exec(demo.stderr)?.[1])
  await assert.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  await demo.assertGone()
})

test('the demo leaves nothing on the Redis it is given, and does not print its password', async () => {
  await using server = await startRedis()
  await server.admin.acl('SETUSER', 'shop', 'on', '>sesame', '~*', '&*', '+@all')
  await server.admin.set('mine', 'untouched')
  const url = server.url.replace('//', '//shop:sesame@')
  await using demo = new Demo([...SMALL, '--json'], { REDIS_URL: url })
  assert.equal(await demo.exitCode, 0, demo.stderr)
  assertSold(demo.summary, { stock: 60, processes: 3 })
  assert.match(demo.stderr, new RegExp(`Redis: 127\\.0\\.0\\.1:${server.port}\n`))
  assert.doesNotMatch(demo.stdout + demo.stderr, /sesame/)
  await expectNothingLeft(server, { keys: /^mine$/ })
  assert.equal(await server.admin.get('mine'), 'untouched')
  await demo.assertGone()
})

test('with --embedded the demo needs no Redis, and its first line says that this is not a real one', async () => {
  await using demo = new Demo([...SMALL, '--json', '--embedded'], { PATH: '/nowhere' })
  assert.equal(await demo.exitCode, 0, demo.stderr)
  assertSold(demo.summary, { stock: 60, processes: 3 })
  assert.match(demo.stderr.trim().split('\n')[0] ?? '', /this is not a real Redis/)
  const port = Number(/in memory, in this process, on 127\.0\.0\.1:(\d+)/.exec(demo.stderr)?.[1])
  await assert.rejects(once(connect(port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' })
  await demo.assertGone()
})

test('one process with four buyers oversells without the lock', async () => {
  await using server = await startRedis()
  await using demo = new Demo(['--stock', '20', '--processes', '1', '--json', '--redis', server.url])
  assert.equal(await demo.exitCode, 0, demo.stderr)
  assertSold(demo.summary, { stock: 20, processes: 1 })
})

test('the demo prints plain text to a pipe: progress, table, timeline', async () => {
  await using demo = new Demo(SMALL)
  assert.equal(await demo.exitCode, 0, demo.stderr)
  assert.equal(demo.stderr, '')
  assert.ok(!demo.stdout.includes('\x1b'), 'no colours, no cursor')
  for (const line of demo.stdout.split('\n')) assert.ok(line.length < 80, `too long for a terminal: ${line}`)
  assert.match(demo.stdout, /✘ \d+ orders for 60 units: \d+ oversold/)
  assert.match(demo.stdout, /✔ 60 orders for 60 units: none oversold/)
  assert.match(demo.stdout, /no lock +60 +\d+ +\d+/)
  assert.match(demo.stdout, /withLock +60 +60 +0 +1 /)
  assert.match(demo.stdout, /process 3 +[█─ ]*█/)
})

test('the demo shows its lock at one moment of the sale, as operators see it', async () => {
  let printed = ''
  // A machine that stalls may miss the moment.
  for (let tries = 0; tries < 3; tries++) {
    await using demo = new Demo(['--stock', '600', '--processes', '3'])
    assert.equal(await demo.exitCode, 0, demo.stderr)
    printed = demo.stdout
    for (const line of printed.split('\n')) assert.ok(line.length < 80, `too long for a terminal: ${line}`)
    const [, row = ''] =
      /as operators see it:\n\n {2}LOCK .*\n {2}(.*)\n\n.*npx holdfast top --redis/.exec(printed) ?? []
    if (/^holdfast:demo:\S+ +lock +\d+ms +shop pid \d+ +● +\d+\.\ds +≥?\d+$/.test(row)) return
  }
  assert.fail(printed)
})

test('a look at the lock that fails shows nothing, and is no failure of the demo', async () => {
  const redis = new Redis({ lazyConnect: true })
  redis.disconnect()
  assert.equal(await sampleLock(redis, 'a', () => false), undefined)
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`${signal} during a sale ends the demo cleanly`, async () => {
    await using server = await startRedis()
    await using demo = new Demo([...LONG, '--redis', server.url])
    await demo.prints('Without a lock')
    await waitUntil(async () => Number(await server.admin.get((await orderKeys(server.admin))[0] ?? '')) > 0)
    demo.process.kill(signal)
    assert.equal(await demo.exitCode, signal === 'SIGINT' ? 130 : 143, demo.stderr)
    assert.equal(demo.stderr, '')
    await expectNothingLeft(server)
    await demo.assertGone()
  })
}

test('the demo ends cleanly when the reader of its output is gone', async () => {
  await using server = await startRedis()
  await using demo = new Demo([...SMALL, '--redis', server.url])
  await demo.prints('Without a lock')
  demo.process.stdout.destroy()
  assert.equal(await demo.exitCode, 141, demo.stderr)
  assert.equal(demo.stderr, '')
  await expectNothingLeft(server)
  await demo.assertGone()
})

test('the private Redis and the selling processes end when the demo is killed', async () => {
  await using demo = new Demo([...SMALL, '--stock', '600'])
  await demo.prints(LOCKED_SALE)
  demo.process.kill('SIGKILL')
  await demo.exitCode
  await demo.assertGone()
})

test('the keys of a killed demo on a given Redis expire', async () => {
  await using server = await startRedis()
  await using demo = new Demo([...SMALL, '--stock', '600', '--redis', server.url])
  await demo.prints(LOCKED_SALE)
  demo.process.kill('SIGKILL')
  await demo.exitCode
  await demo.assertGone()
  const keys = await server.admin.keys('*')
  assert.ok(keys.length > 0)
  for (const key of keys) {
    // The turn queue of the killed waiters is a separate key, and so are the records of their clients.
    assert.match(key, /^((holdfast_turn_queue:\{)?holdfast:demo:|holdfast_client:)/)
    assert.ok((await server.admin.pttl(key)) > 0, key)
  }
})

const WRONG: [args: string[], message: RegExp][] = [
  [['--stock', '0'], /--stock: expected a whole number from 1 to 10000, not "0"/],
  [['--processes', '1e1'], /--processes: expected a whole number from 1 to 32, not "1e1"/],
  [['--processes', '33'], /--processes/],
  [['--stock'], /--stock/],
  [['--shop'], /--shop/],
  [['--redis', 'http://:sesame@127.0.0.1'], /--redis: expected a Redis URL/],
  [['redis://:sesame@127.0.0.1'], /redis:\/\/…@127/],
]

for (const [args, message] of WRONG) {
  test(`demo ${args.join(' ')} is rejected with exit code 64`, async () => {
    await using demo = new Demo(args)
    assert.equal(await demo.exitCode, 64)
    assert.match(demo.stderr, message)
    assert.doesNotMatch(demo.stderr, /sesame/)
    assert.equal(demo.stdout, '')
  })
}

test('an unreachable Redis or a wrong password gives exit code 69, without printing the password', async () => {
  await using server = await startRedis()
  for (const place of [`127.0.0.1:${server.port}`, '127.0.0.1:1']) {
    await using demo = new Demo(['--redis', `redis://shop:sesame@${place}`])
    assert.equal(await demo.exitCode, 69)
    assert.match(demo.stderr, new RegExp(`Redis at ${place} cannot be used: \\w+`))
    assert.doesNotMatch(demo.stderr, /sesame/)
  }
})

test('without redis-server the demo installs nothing, explains how to install it and exits with 69', async () => {
  const bin = mkdtempSync(join(tmpdir(), 'holdfast-bin-'))
  try {
    symlinkSync(process.execPath, join(bin, 'node'))
    const calls = join(bin, 'calls')
    for (const installer of ['apt', 'apt-get', 'brew', 'dnf', 'docker', 'sudo']) {
      writeFileSync(join(bin, installer), `#!/bin/sh\necho "$0 $*" >>'${calls}'\n`, { mode: 0o755 })
    }
    await using demo = new Demo([], { PATH: bin })
    assert.equal(await demo.exitCode, 69)
    assert.ok(!existsSync(calls), `called: ${existsSync(calls) && readFileSync(calls, 'utf8')}`)
    assert.equal(demo.stdout, '')
    assert.match(demo.stderr, /^holdfast: redis-server is not installed or not on the PATH/)
    for (const hint of [
      /Debian, Ubuntu +sudo apt install redis-server\n/,
      /Fedora, RHEL +sudo dnf install redis\n/,
      /macOS +brew install redis\n/,
      /Docker +docker run .* redis\n +holdfast demo --redis redis:\/\/127\.0\.0\.1:6379\n/,
      /holdfast demo --redis URL, or set REDIS_URL/,
    ]) {
      assert.match(demo.stderr, hint)
    }
    await demo.assertGone()
  } finally {
    rmSync(bin, { recursive: true })
  }
})

test('a redis-server that does not start gives exit code 69 and leaves nothing behind', async () => {
  const bin = mkdtempSync(join(tmpdir(), 'holdfast-bin-'))
  try {
    writeFileSync(join(bin, 'redis-server'), '#!/bin/sh\necho "cannot start today"\n', { mode: 0o755 })
    await using demo = new Demo([], { PATH: `${bin}${delimiter}${process.env['PATH']}` })
    assert.equal(await demo.exitCode, 69)
    assert.match(demo.stderr, /redis-server did not start:\ncannot start today/)
    await demo.assertGone()
  } finally {
    rmSync(bin, { recursive: true })
  }
})

test('demo --help lists every option', async () => {
  await using demo = new Demo(['--help'])
  assert.equal(await demo.exitCode, 0)
  for (const option of ['--processes', '--stock', '--redis', '--json']) assert.ok(demo.stdout.includes(option), option)
})

test('the timeline shows holders and waiters at the finest scale that shows every process', () => {
  const visit = (askedAt: number, enteredAt: number, leftAt: number) => ({ askedAt, enteredAt, leftAt })
  const result = resultOf(2, 2, [[visit(0, 0, 4), visit(10, 12, 13)], [visit(2, 5, 10)]])
  assert.equal(result.atOnce, 1)
  const stream = { isTTY: false, columns: 80, write: () => true } as unknown as NodeJS.WriteStream
  assert.deepEqual(timeline(new Terminal(stream, {}), result).slice(2, 4), [
    '  process 1    ████      ',
    '  process 2      ───█████',
  ])
})

function assertSold(summary: Summary, { stock, processes }: { stock: number; processes: number }): void {
  const { unlocked, locked } = summary
  assert.equal(summary.stock, stock)
  assert.equal(summary.processes, processes)
  assert.ok(unlocked.oversold > 0, JSON.stringify(summary))
  assert.equal(unlocked.sold, stock + unlocked.oversold)
  assert.deepEqual([locked.sold, locked.oversold, locked.atOnce], [stock, 0, 1])
  assert.ok(locked.perSecond > 0 && locked.waitP50Ms > 0 && locked.waitP99Ms >= locked.waitP50Ms)
}

async function orderKeys(admin: { keys(pattern: string): Promise<string[]> }): Promise<string[]> {
  return await admin.keys('holdfast:demo:*:orders')
}

/** One run of `holdfast demo`, with a temporary directory of its own. */
class Demo implements AsyncDisposable {
  readonly process
  /** Resolves when it has ended and its output is complete. */
  readonly exitCode: Promise<number | null>
  stdout = ''
  stderr = ''
  readonly #tmp = mkdtempSync(join(tmpdir(), 'holdfast-test-'))

  constructor(args: string[], env: Record<string, string> = {}) {
    this.process = spawn(process.execPath, [MAIN, 'demo', ...args], {
      env: { ...process.env, REDIS_URL: '', NODE_TEST_CONTEXT: undefined, TMPDIR: this.#tmp, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    tieToThisProcess(this.process)
    this.process.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    this.exitCode = once(this.process, 'close').then(([code]) => code as number | null)
  }

  get summary(): Summary {
    return JSON.parse(this.stdout.trimEnd().split('\n').at(-1) ?? '') as Summary
  }

  async prints(text: string): Promise<void> {
    await waitUntil(() => this.stdout.includes(text), { timeoutMs: 20_000, message: () => `${text}\n${this.stderr}` })
  }

  /** None of its processes is left, and none of its files. */
  async assertGone(): Promise<void> {
    await waitUntil(() => this.#left().length === 0, { message: () => `left: ${this.#left().join(', ')}` })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill('SIGKILL')
    await this.exitCode
    rmSync(this.#tmp, { recursive: true, force: true })
  }

  #left(): string[] {
    return [...readdirSync(this.#tmp), ...processesWith(`TMPDIR=${this.#tmp}`)]
  }
}

/** The processes with that variable in their environment; none without /proc. */
function processesWith(variable: string): string[] {
  if (!existsSync('/proc/self/environ')) return []
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(variable)
    } catch {
      return false // ended meanwhile, or owned by another user
    }
  })
}
