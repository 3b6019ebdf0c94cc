/** `holdfast doctor --acl --role`: a user for people who look at locks, and one for people who break them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { aclRule, READ_COMMANDS } from '../../src/doctor/acl.js'
import { type Client, connect } from '../../src/index.js'
import { fleetRead, jobRead } from '../../src/lua/generated.js'
import { forcedKey } from '../../src/wire/keys.js'
import { doctor, report, SECRET, withUser } from '../support/doctor.js'
import { runHoldfast } from '../support/processes/holdfast-command.js'
import { ENGINE_VERSION } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f:41'

describe('holdfast doctor --acl --role', () => {
  let server: RedisServer
  let app: Client

  before(async () => {
    server = await startRedis()
    for (const role of ['viewer', 'operator']) {
      const { stdout, stderr } = await doctor(['--acl', '--role', role, '--redis', server.url])
      assert.match(stdout, new RegExp(`^ACL SETUSER ${role} reset on >secret `), stderr)
      const [, ...words] = stdout.trim().replace('>secret', `>${SECRET}`).split(' ')
      await server.admin.call('ACL', ...words)
    }
    app = await connect({ url: server.url, inspection: { name: 'shop' } })
    // A client makes itself known when it first waits.
    await server.admin.multi().hset('lock:busy', JAVA, 1).pexpire('lock:busy', 600_000).exec()
    await app.getLock('lock:busy').tryLock({ waitTimeMs: 100 })
    // Of another team: neither user may read it.
    await server.admin.multi().hset('bank:1', JAVA, 1).pexpire('bank:1', 600_000).exec()
  })

  after(async () => {
    await app.close()
    await server.stop()
  })

  async function holdfastAs(user: string, ...args: string[]) {
    return await runHoldfast(withUser(server, user, SECRET), args)
  }

  it('viewer prints a user that sees the locks of its prefix, and is denied nothing that it needs', async () => {
    await using hold = await app.getLock('lock:a').lock({ label: 'refund' })
    await using fair = await app.getFairLock('lock:fair').lock()
    await using read = await app.getReadWriteLock('lock:both').readLock().lock()
    const semaphore = app.getPermitExpirableSemaphore('lock:permits')
    await semaphore.setPermits(2)
    await using permit = await semaphore.acquire()
    await server.admin.acl('LOG', 'RESET')
    const { code, stdout, stderr } = await holdfastAs('viewer', 'who', 'lock:a', '--timeout', '10s')
    assert.deepEqual([code, stderr], [0, ''])
    assert.ok(stdout.includes(`by ${hold.holder}\n    who     shop`), stdout)
    assert.match(stdout, /● responding\n.*\n {4}for {5}refund\n/)
    for (const { lockName } of [fair, read, permit]) {
      assert.equal((await holdfastAs('viewer', 'who', lockName)).code, 0, lockName)
    }
    await using viewer = await connect({ url: withUser(server, 'viewer', SECRET), inspection: false })
    assert.deepEqual(await viewer.fleet.audit(), [])
    await app.fleet.recordJob({ name: 'lock:job', holder: 'a:1', label: '', everyMs: 1, ranMs: 0 }, 10_000)
    assert.deepEqual(
      (await viewer.fleet.jobs()).map(({ name, state }) => [name, state]),
      [['lock:job', 'killed']],
    )
    assert.deepEqual(await server.admin.acl('LOG'), [])
  })

  it('viewer prints a user whose lists count and name the keys that it may not read', async () => {
    await using hold = await app.getLock('lock:a').lock()
    const giveUp = new AbortController()
    const waiting = assert.rejects(app.getLock('bank:1').lock({ signal: giveUp.signal }), { name: 'AbortError' })
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS', '*{bank:1}')).length > 0)
    try {
      const listed = await holdfastAs('viewer', 'ls', '--timeout', '10s')
      assert.deepEqual([listed.code, listed.stderr], [2, ''])
      assert.match(listed.stdout, /! this Redis user may not read 1 key, which may be a lock: bank:1\n$/)
      assert.deepEqual([...listed.stdout.matchAll(/^\w+:\w+/gm)].map(String).sort(), [hold.lockName, 'lock:busy'])
      const found = await holdfastAs('viewer', 'deadlocks', '--timeout', '10s')
      assert.deepEqual([found.code, found.stderr], [2, ''])
      assert.match(found.stdout, /^no deadlock among what can be seen\n! .*: bank:1\n$/)
    } finally {
      giveUp.abort()
      await waiting
    }
  })

  it('viewer prints a user that can neither break a lock nor write its keys', async () => {
    await using hold = await app.getLock('lock:a').lock()
    const broken = await holdfastAs('viewer', 'unlock', 'lock:a', '--holder', hold.holder, '--yes', '--anyway')
    assert.equal(broken.code, 77, broken.stdout + broken.stderr)
    const redis = new Redis(withUser(server, 'viewer', SECRET))
    try {
      const denied = /NOPERM|can't run this command/
      await assert.rejects(redis.del('lock:a'), denied)
      await assert.rejects(redis.hset('lock:a', JAVA, 1), denied)
      await assert.rejects(redis.eval("return redis.call('del', KEYS[1])", 1, 'lock:a'), denied)
      await assert.rejects(redis.set(forcedKey('lock:a', hold.holder), '{}'), denied)
      await assert.rejects(redis.get('bank:1'), denied)
      await assert.rejects(redis.publish('redisson_lock__channel:{lock:a}', '0'), denied)
    } finally {
      redis.disconnect()
    }
    assert.equal(await hold.isHeld(), true)
    const mayBreak = async (user: string, lock: string) => {
      await using client = await connect({ url: withUser(server, user, SECRET), inspection: false })
      return await client.fleet.mayForceUnlock(lock)
    }
    assert.deepEqual([await mayBreak('viewer', 'lock:a'), await mayBreak('operator', 'lock:a')], [false, true])
    assert.equal(await mayBreak('operator', 'bank:1'), false)
  })

  it('viewer allows the commands of the scripts that read a lock or a job, and no other', () => {
    const text = fleetRead('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h').script.text + jobRead('a').script.text
    const used = new Set([...text.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name = '']) => name))
    assert.deepEqual([...used].sort(), [...READ_COMMANDS, 'time'].sort())
  })

  it('operator prints a user that can break a lock, which is recorded', async () => {
    let interrupted: Promise<void> | undefined
    const holder = new Promise<string>((resolve) => {
      const working = app.withLock('lock:b', async (hold) => {
        resolve(hold.holder)
        await once(hold.signal, 'abort')
      })
      interrupted = assert.rejects(working, { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    })
    const broken = await holdfastAs('operator', 'unlock', 'lock:b', '--holder', await holder, '--yes')
    assert.deepEqual([broken.code, broken.stderr], [0, ''])
    await interrupted
    const order = [
      'unlock',
      'lock:busy',
      '--holder',
      JAVA,
      '--yes',
      '--anyway',
      '--grace',
      '0',
      '--quarantine',
      '100ms',
    ]
    const freed = await holdfastAs('operator', ...order)
    assert.deepEqual([freed.code, freed.stderr], [0, ''])
    assert.equal(await server.admin.exists('lock:busy'), 0)
    await using operator = await connect(withUser(server, 'operator', SECRET))
    const entries = await operator.fleet.audit()
    const outcomes = entries.map(({ lock, outcome, quarantineMs }) => [lock, outcome, quarantineMs])
    assert.deepEqual(outcomes, [
      ['lock:busy', 'freed', 100],
      ['lock:b', 'released', undefined],
    ])
    await operator.withLock('lock:c', async () => {})
    const foreign = await holdfastAs('operator', 'unlock', 'bank:1', '--holder', JAVA, '--yes')
    assert.equal(foreign.code, 77)
  })

  for (const role of ['viewer', 'operator'] as const) {
    it(`holdfast doctor --role ${role} finds all rights of the rule, and what is missing or too much`, async () => {
      const checksOf = async (...more: string[]) => {
        const [, , , ...words] = aclRule(role, 'lock:', ENGINE_VERSION, role)
          .replace('>secret', `>${SECRET}`)
          .split(' ')
        await server.admin.call('ACL', 'SETUSER', 'checked', ...words, ...more)
        return (await report(['--role', role, '--redis', withUser(server, 'checked', SECRET)])).checks
      }
      const rightsOf = async (...more: string[]) => (await checksOf(...more)).find(({ id }) => id === 'rights')
      const found = await checksOf()
      const statusOf = (id: string) => found.find((check) => check.id === id)?.status
      assert.deepEqual([statusOf('rights'), statusOf('trial-lock')], ['ok', role === 'viewer' ? undefined : 'ok'])
      const missing = await rightsOf('-scan', '-pubsub', role === 'viewer' ? '-lrange' : '-lpush')
      assert.match(missing?.message ?? '', new RegExp(`not allowed: ${role === 'viewer' ? 'lrange' : 'lpush'}.*, scan`))
      assert.match(missing?.message ?? '', /pubsub channels, pubsub numsub/)
      const more = await rightsOf('+hset')
      if (role === 'viewer') assert.match(more?.message ?? '', /this user may also change locks/)
      await server.admin.acl('DELUSER', 'checked')
    })
  }

  it('the rules of doctor --acl --role are accepted by the server', async () => {
    for (const role of ['viewer', 'operator'] as const) {
      const words = aclRule(`all-${role}`, '*', ENGINE_VERSION, role).split(' ')
      assert.equal(await server.admin.call(...(words as [string])), 'OK')
    }
    const unknown = await doctor(['--acl', '--role', 'admin'])
    assert.match(unknown.stderr, /--role: expected app, viewer, operator, not "admin"/)
  })
})
