/** The commands for operators, as processes of their own, on real locks of other processes. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { after, afterEach, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { LockInfo } from '../../src/fleet/lock-info.js'
import { connect } from '../../src/index.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { endOf, MAIN, spawnHoldfast } from '../support/processes/holdfast-command.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { waitUntil } from '../support/wait-until.js'

const TAKER = new URL('../support/nested-locks.js', import.meta.url)
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f:41'

describe('the commands for operators', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    await server.admin.flushall()
    await expectNothingLeft(server)
  })
  after(() => server.stop())

  function holdfast(...args: string[]): Child {
    return spawnHoldfast(server.url, args)
  }

  async function run(...args: string[]) {
    return await endOf(holdfast(...args))
  }

  /** @returns what the command prints as JSON, one object a line */
  async function json<T extends object>(...args: string[]): Promise<T> {
    await using child = holdfast(...args, '--json')
    child.endCommands()
    return await child.nextMessage<T>()
  }

  async function isShownAs(status: string, name: string): Promise<void> {
    const isSo = async () => (await json<LockInfo>('who', name)).holders[0]?.status === status
    await waitUntil(isSo, { timeoutMs: 30_000 })
  }

  async function isWaitedFor(name: string): Promise<void> {
    const isSo = async () => (await json<LockInfo>('who', name, '--timeout', '5s')).waiters.length > 0
    await waitUntil(isSo, { timeoutMs: 60_000 })
  }

  /** Two processes of which each holds one lock; `cross` has each wait for the other's. */
  async function twoTakers() {
    await server.admin.multi().hset('busy', JAVA, 1).pexpire('busy', 60_000).exec()
    const takers = [spawnChild(TAKER, [server.url, 'a', 'b']), spawnChild(TAKER, [server.url, 'b', 'a'])] as const
    const holders = await Promise.all(
      takers.map(async (taker) => (await taker.nextMessage<{ holder: string }>()).holder),
    )
    for (const name of ['a', 'b']) await isShownAs('responding', name)
    await server.admin.del('busy')
    const cross = async (): Promise<void> => {
      for (const taker of takers) taker.send({ go: true })
      const bothWait = async (): Promise<boolean> => {
        const locks = await Promise.all(['a', 'b'].map((name) => json<LockInfo>('who', name, '--timeout', '5s')))
        return locks.every(({ waiters }) => waiters.length > 0)
      }
      await waitUntil(bothWait, { timeoutMs: 60_000 })
    }
    const [one = '', other = ''] = holders
    return { takers, holders: [one, other] as const, cross }
  }

  it('holdfast ls prints all locks into a pipe whose reader is slow', async () => {
    const names = Array.from({ length: 3_000 }, (_, number) => `lock:${number}`)
    const planted = server.admin.pipeline()
    for (const name of names) planted.hset(name, JAVA, 1).pexpire(name, 60_000)
    await planted.exec()
    const command = 'exec "$0" "$1" ls --json | { sleep 2; cat; }'
    const child = spawn('sh', ['-c', command, process.execPath, fileURLToPath(MAIN)], {
      env: { ...process.env, REDIS_URL: server.url, HOLDFAST_CONFIG: '' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const lines = (await text(child.stdout)).trimEnd().split('\n')
    const locks = lines.map((line) => JSON.parse(line) as { name?: string })
    assert.deepEqual(locks.flatMap(({ name }) => name ?? []).sort(), names.sort())
    assert.equal(lines.length, names.length + 1)
  })

  it('holdfast ls and who list a lock of another process and one of Java with their holders', async () => {
    const { takers, holders } = await twoTakers()
    try {
      await server.admin.multi().hset('java', JAVA, 2).pexpire('java', 29_000).exec()
      const listed = await run('ls', '--timeout', '5s')
      assert.equal(listed.code, 0, listed.stderr)
      assert.match(
        listed.stdout,
        new RegExp(`a +lock +\\S+ +taker-a@\\S+ pid ${takers[0].pid} +● +\\S+ +0 +a, then b\n`),
      )
      assert.match(listed.stdout, /java +lock +\? +Redisson 10488e73:41 +\? +2\d\.\ds +0\n/)
      assert.match(listed.stdout, /3 locks · clients: ● 2 responding .* \? 1 unlisted\n$/)
      const found = await run('who', 'a', '--timeout', '5s')
      assert.equal(found.code, 0)
      assert.match(found.stdout, new RegExp(`held, count 1, by ${holders[0]}\n`))
      assert.match((await run('who', 'java')).stdout, /held, count 2, by 10488e73/)
      assert.deepEqual((await run('who', 'none')).code, 1)
      const top = await run('top', 'a*', '--once', '--timeout', '5s')
      assert.match(top.stdout, /1 lock · /)
    } finally {
      await Promise.all(takers.map((taker) => taker.stop()))
    }
  })

  it('a process that stands still is called silent, and a killed one disconnected', async () => {
    const { takers } = await twoTakers()
    try {
      takers[0].freeze()
      await isShownAs('silent', 'a')
      takers[0].thaw()
      await takers[0].stop()
      await isShownAs('disconnected', 'a')
    } finally {
      await Promise.all(takers.map((taker) => taker.stop()))
    }
  })

  it('a process that is cut off without a FIN is called silent', async () => {
    await using proxy = await startProxy(server.port)
    await server.admin.multi().hset('busy', JAVA, 1).pexpire('busy', 60_000).exec()
    await using taker = spawnChild(TAKER, [proxy.url, 'a', 'b'])
    await taker.nextMessage()
    await isShownAs('responding', 'a')
    proxy.freeze()
    const found = await run('who', 'a')
    assert.deepEqual([found.code, found.stderr], [0, ''])
    assert.match(found.stdout, /taker-a .*pid \d+ .*\n +○ silent/)
  })

  it('holdfast deadlocks finds a deadlock of two processes, which ends when one hold is broken', async () => {
    const { takers, holders, cross } = await twoTakers()
    try {
      assert.deepEqual([(await run('deadlocks')).code, (await run('deadlocks')).stdout], [0, 'no deadlock\n'])
      await cross()
      const found = await run('deadlocks', '--timeout', '5s')
      assert.equal(found.code, 1, found.stderr)
      assert.match(found.stdout, /^Deadlock of 2 holds: it does not end by itself\n {2}a is held for \S+ by taker-a@/)
      assert.match(found.stdout, new RegExp(`holdfast unlock b --holder ${holders[1]}\n`))
      const broken = await run('unlock', 'a', '--holder', holders[0], '--yes', '--grace', '30s', '--reason', 'test')
      assert.equal(broken.code, 0, broken.stdout + broken.stderr)
      assert.match(broken.stdout, /released by its holder/)
      await takers[1].nextMessage(({ took }) => took === 'a')
    } finally {
      await Promise.all(takers.map((taker) => taker.stop()))
    }
  })

  it("the commands for operators do not break another holder's lock, nor one without a confirmation", async () => {
    await server.admin.multi().hset('java', JAVA, 1).pexpire('java', 29_000).exec()
    const other = await run('unlock', 'java', '--holder', JAVA.replace(':41', ':42'), '--yes')
    assert.equal(other.code, 1)
    assert.match(other.stdout, /java is not held by .*:42: it is held by .*:41\n/)
    const unconfirmed = await run('unlock', 'java', '--holder', JAVA)
    assert.deepEqual([unconfirmed.code, unconfirmed.stderr.includes('--yes')], [77, true])
    const silent = await run('unlock', 'java', '--holder', JAVA, '--yes', '--grace', '100ms')
    assert.equal(silent.code, 75, silent.stderr)
    assert.equal(await server.admin.hget('java', JAVA), '1')
    const freed = await run('unlock', 'java', '--holder', JAVA, '--yes', '--grace', '100ms', '--anyway')
    assert.equal(freed.code, 0, freed.stderr)
    assert.equal(await server.admin.exists('java'), 0)
  })

  it('the commands for operators repeat themselves until a signal, and exit with its code', async () => {
    const watching = holdfast('watch', 'w', '--interval', '50ms')
    await waitUntil(() => watching.stdout.includes('free, 0 waiting'), { timeoutMs: 30_000 })
    await server.admin.multi().hset('w', JAVA, 1).pexpire('w', 29_000).exec()
    await waitUntil(() => /held by Redisson 10488e73:41 \?\n/.test(watching.stdout), { timeoutMs: 30_000 })
    process.kill(watching.pid ?? 0, 'SIGINT')
    assert.equal((await watching.exit).code, 130)
  })

  it('holdfast watch hears of a release at once, and of the grant that follows it', async () => {
    await using holder = await connect({ url: server.url, inspection: { name: 'first' } })
    await using waiter = await connect({ url: server.url, inspection: { name: 'second' } })
    const hold = await holder.getLock('w').lock()
    const waiting = waiter.getLock('w').lock()
    await isWaitedFor('w')
    const watching = holdfast('watch', 'w', '--interval', '1h', '--timeout', '5s')
    try {
      const seen = (line: RegExp) => waitUntil(() => line.test(watching.stdout), { timeoutMs: 30_000 })
      await seen(/ {2}held by .*\n.* is waiting\n/)
      await waitUntil(async () => (await server.admin.pubsub('CHANNELS', 'redisson_lock__channel:{w}')).length > 0)
      await hold.unlock()
      await seen(/ no longer held by .*\n/)
      const next = await waiting
      await seen(/ no longer held by (.*\n)+.* {2}held by second@/)
      await next.unlock()
      await seen(/ no longer held by second@.*\n(.*\n)*.* free, /) // perhaps with one waiting: its subscription lasts longer
      process.kill(watching.pid ?? 0, 'SIGTERM')
      assert.deepEqual([(await watching.exit).code, watching.stderr], [143, ''])
    } finally {
      await watching.stop()
    }
  })

  it("holdfast watch polls, with one warning, if its user may not subscribe to the lock's channels", async () => {
    await server.admin.call('ACL', 'SETUSER', 'deaf', 'on', 'nopass', '+@all', '~*', '&holdfast_*')
    const watching = holdfast('watch', 'w', '--redis', server.url.replace('//', '//deaf:none@'))
    try {
      await waitUntil(() => watching.stdout.includes('free, 0 waiting'), { timeoutMs: 30_000 })
      await server.admin.multi().hset('w', JAVA, 1).pexpire('w', 29_000).exec()
      await waitUntil(() => /held by Redisson 10488e73:41 \?\n/.test(watching.stdout), { timeoutMs: 30_000 })
      assert.equal(watching.stderr.match(/warning/g)?.length, 1, watching.stderr)
    } finally {
      await watching.stop()
      await server.admin.acl('DELUSER', 'deaf')
    }
  })

  it('the commands for operators exit with 69 if Redis is unreachable, and 64 for wrong usage', async () => {
    assert.equal((await run('ls', '--redis', 'redis://127.0.0.1:1')).code, 69)
    const wrong = await run('unlock', 'a')
    assert.deepEqual([wrong.code, wrong.stderr.split('\n')[1]], [64, 'Try: holdfast unlock --help'])
    for (const command of ['ls', 'who', 'top', 'watch', 'unlock', 'deadlocks']) {
      const help = await run('help', command)
      assert.deepEqual([help.code, help.stdout.startsWith(`Usage: holdfast ${command}`)], [0, true])
    }
  })

  it('the commands for operators show the label of a program that holdfast run started', async () => {
    const labelled = holdfast('run', 'r', '--label', 'nightly', '--', 'cat')
    const plain = holdfast('run', 's', '--', 'cat')
    try {
      const labelOf = async (name: string) => (await json<LockInfo>('who', name, '--timeout', '5s')).holders[0]?.label
      await waitUntil(async () => (await labelOf('r')) === 'nightly', { timeoutMs: 60_000 })
      await waitUntil(async () => /^.+: cat$/.test((await labelOf('s')) ?? ''), { timeoutMs: 60_000 })
    } finally {
      await Promise.all([labelled, plain].map((child) => child.stop()))
    }
  })
})
