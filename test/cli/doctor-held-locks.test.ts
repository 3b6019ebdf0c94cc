/** `holdfast doctor` on locks that nobody frees, holds that are old, and queues with the dead in them. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { after, afterEach, before, describe, it } from 'node:test'
import { SAMPLE_MS, sampleLocks } from '../../src/doctor/lock-sample.js'
import { type Client, connect, type LockInfo } from '../../src/index.js'
import { markedId } from '../../src/wire/client-id.js'
import { clientRecordKey, fairQueue, turnQueueKey } from '../../src/wire/keys.js'
import { doctor, report, SECRET, withUser } from '../support/doctor.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { ADMIN } from '../support/rights.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'

describe('holdfast doctor', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    await server.admin.flushall()
    await expectNothingLeft(server)
  })
  after(() => server.stop())

  /** Of a run in which the machine was not too busy to read all locks. */
  async function checks(url = server.url) {
    const run = await waitUntil(
      async () => {
        const one = await report(['--redis', url])
        return !one.checks.some(({ message }) => message.includes(`found in ${SAMPLE_MS} ms`)) && one
      },
      { timeoutMs: 120_000, message: 'all locks are found in time' },
    )
    return Object.fromEntries(
      ['lock-expiry', 'oldest-holds', 'dead-waiters'].map((id) => [id, run.check(id)]),
    ) as Record<'lock-expiry' | 'oldest-holds' | 'dead-waiters', ReturnType<typeof run.check>>
  }

  /** What redis-cli does with a command. */
  async function pasted(command: string): Promise<void> {
    const cli = spawn('redis-cli', ['-p', String(server.port), '--user', ADMIN, '--pass', 'none', '--no-auth-warning'])
    cli.stdin.end(`${command}\n`)
    assert.equal((await text(cli.stdout)).trim(), '1', command)
  }

  async function held(name: string, holder = `${JAVA}:1`): Promise<void> {
    await server.admin.multi().hset(name, holder, 1).pexpire(name, 600_000).exec()
  }

  it('holdfast doctor finds nothing where there are no locks, or only living ones', async () => {
    for (const { status, message } of Object.values(await checks()))
      assert.deepEqual([status, message], ['ok', 'no locks'])
    await using client = await connect({ url: server.url, inspection: { name: 'shop' } })
    await using other = await connect({ url: server.url, inspection: false })
    const holds = [await client.getLock('lock:a').lock(), await client.getFairLock('lock:f').lock()]
    const waiting = [other.getLock('lock:a').lock(), other.getFairLock('lock:f').lock()]
    for (const wait of waiting) wait.catch(() => {})
    const queues = [turnQueueKey('lock:a'), fairQueue('lock:f')]
    await waitUntil(async () => (await server.admin.exists(...queues)) === 2, { timeoutMs: 30_000 })
    await client.getPermitExpirableSemaphore('lock:p').trySetPermits(1)
    await server.admin.zadd('{lock:p}:timeout', '922337203685477', 'never')
    const found = await checks()
    assert.deepEqual([found['lock-expiry'].status, found['lock-expiry'].message], ['ok', 'none of 3 locks'])
    assert.deepEqual([found['dead-waiters'].status, found['dead-waiters'].message], ['ok', 'none at 3 locks'])
    assert.equal(found['oldest-holds'].status, 'ok')
    for (const hold of holds) await hold.unlock()
    for (const wait of waiting) await (await wait).unlock()
  })

  it('holdfast doctor reports locks without a TTL as a problem, and how to end them', async () => {
    for (const name of ['lock:a', 'lock:b', 'lock:c']) await server.admin.hset(name, `${JAVA}:1`, 1)
    await held('lock:e')
    await server.admin.hset('lock:d', { mode: 'write', [`${JAVA}:1:write`]: 1 })
    await server.admin.hset('settings', { mode: 'read', theme: 'dark' })
    const { status, message, fix } = (await checks())['lock-expiry']
    assert.equal(status, 'problem')
    assert.match(message, /^without a TTL: (lock:[a-d] \(10488e73-\S+:1(:write)?\)(, )?){3} and 1 more, of 5 locks$/)
    assert.match(fix ?? '', /^PEXPIRE lock:[a-d] 30000: a live holder renews it/)
  })

  for (const name of ['lock:x\nFLUSHALL\n', 'lock:a b', `lock:"'\\é`, `lock:${'long'.repeat(30)}`]) {
    it(`a command of holdfast doctor is safe to paste for ${JSON.stringify(name).slice(0, 30)}`, async () => {
      await server.admin.mset('other', 1, 'FLUSHALL', 1)
      await server.admin.hset(name, `${JAVA}:1`, 1)
      const { stdout } = await doctor(['--redis', server.url])
      assert.doesNotMatch(stdout, /^\W*FLUSHALL/m)
      const { fix } = (await checks())['lock-expiry']
      const [command = ''] = (fix ?? '').split(': a live holder')
      await pasted(command)
      assert((await server.admin.pttl(name)) > 0, command)
      assert.equal(await server.admin.exists('other'), 1)
    })
  }

  it('holdfast doctor names the oldest holds, by whom and for what, as far as that is known', async () => {
    const id = markedId(randomUUID())
    const holds = [{ lock: 'lock:a', holder: `${id}:1`, count: 1, heldMs: 7_100_000, label: 'report' }]
    const record = { v: 1, client: id, name: 'reports', host: 'rep-1', pid: 7, version: '1.2.3', holds, waits: [] }
    await server.admin.set(clientRecordKey(id), JSON.stringify(record), 'PX', 3_500_000)
    await held('lock:a', `${id}:1`)
    await held('lock:b')
    const { 'oldest-holds': found } = await checks()
    assert.deepEqual([found.status, found.fix], ['note', 'holdfast who lock:a'])
    assert.match(
      found.message,
      /^lock:a for 2h 0m by reports, pid 7 on rep-1 \(report\); of 1 the age is not known; 2 locks$/,
    )
  })

  it('holdfast doctor reports waiters nobody listens for, those of fair locks as a warning', async () => {
    await held('lock:plain')
    await server.admin.rpush(turnQueueKey('lock:plain'), `${randomUUID()}:1`, `${randomUUID()}:2`)
    const { 'dead-waiters': ofTurns } = await checks()
    assert.equal(ofTurns.status, 'note')
    assert.match(ofTurns.message, /^2 that nobody listens for: lock:plain \(a client that .*\), at 1 lock$/)
    await held('lock:fair')
    await server.admin.rpush(fairQueue('lock:fair'), `${JAVA}:26`)
    const { 'dead-waiters': ofBoth } = await checks()
    assert.equal(ofBoth.status, 'warning')
    assert.match(ofBoth.message, /^3 that nobody listens for: .*lock:fair \(10488e73-\S+:26\).*, at 2 locks$/)
  })

  it('holdfast doctor says what its user may not see, and needs no more than the role viewer has', async () => {
    const { admin } = server
    await held('lock:a')
    await server.admin.rpush(fairQueue('lock:a'), `${JAVA}:26`)
    for (const [denied, ids] of [
      ['scan', ['lock-expiry', 'oldest-holds', 'dead-waiters']],
      ['pubsub|numsub', ['dead-waiters']],
      ['pubsub|channels', ['dead-waiters']],
    ] as const) {
      await admin.call('ACL', 'SETUSER', 'someone', 'reset', 'on', `>${SECRET}`, '+@all', `-${denied}`, '~*', '&*')
      const found = await checks(withUser(server, 'someone', SECRET))
      for (const id of ids) {
        assert.equal(found[id].status, 'note', id)
        assert.match(found[id].message, /^could not be checked: NOPERM/)
        assert.ok(found[id].fix?.includes(`+${denied}`), found[id].fix ?? '')
      }
    }
    const { stdout } = await doctor(['--acl', '--role', 'viewer', '--redis', server.url])
    const [, ...words] = stdout.trim().replace('>secret', `>${SECRET}`).split(' ')
    await admin.call('ACL', ...words)
    const found = await checks(withUser(server, 'viewer', SECRET))
    assert.equal(found['lock-expiry'].status, 'ok', found['lock-expiry'].message)
    assert.equal(found['oldest-holds'].message, 'of 1 the age is not known; 1 lock')
    assert.equal(found['dead-waiters'].status, 'warning', found['dead-waiters'].message)
  })

  it('holdfast doctor stops reading locks after a moment, and keeps what it has found', async () => {
    const locks = async function* ({ signal }: { signal: AbortSignal }): AsyncGenerator<Partial<LockInfo>> {
      yield { name: 'lock:a' }
      const keepAlive = setInterval(() => {}, 1_000)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      clearInterval(keepAlive)
      throw signal.reason
    }
    const fleet = { locks: (options: { signal: AbortSignal }) => Object.assign(locks(options), { doubts: [] }) }
    const sample = await sampleLocks({ fleet } as unknown as Client)
    assert.deepEqual(sample, { locks: [{ name: 'lock:a' }], isCut: true, doubts: [] })
  })
})
