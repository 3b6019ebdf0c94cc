/** `holdfast doctor` and its ACL rule on the server that the tests run on: they fit its product and version. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { aclRule } from '../../src/doctor/acl.js'
import { type Client, connect } from '../../src/index.js'
import { fencingTokenKey, lockChannel, turnQueueKey } from '../../src/wire/keys.js'
import { doctor, report } from '../support/doctor.js'
import { kinds } from '../support/kinds.js'
import { ENGINE_VERSION, IS_BEFORE_7 } from '../support/servers/engine.js'
import { freePort } from '../support/servers/free-port.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

describe('holdfast doctor on the server that the tests run on', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis({ args: ['--appendonly', 'yes'] })
  })
  after(() => server.stop())

  const urlOf = (user: string): string => server.url.replace('//', `//${user}:secret@`)

  /** Pastes the words of a rule as redis-cli would. */
  async function paste(rule: string): Promise<void> {
    const [, ...words] = rule.trim().split(' ')
    await server.admin.call('ACL', ...words)
  }

  it('holdfast doctor reports the name and version of the server, and that it is standalone', async () => {
    const info = await server.admin.info('server')
    const version = /^(?:valkey|redict)_version:(\S+)/m.exec(info)?.[1] ?? /^redis_version:(\S+)/m.exec(info)?.[1]
    const product = /^valkey_version:/m.test(info) ? 'Valkey' : /^redict_version:/m.test(info) ? 'Redict' : 'Redis'
    const { check } = await report(['--redis', server.url])
    assert.ok(check('version').message.startsWith(`${product} ${version}`), check('version').message)
    assert.equal(check('endpoint').message, `a single server, ${product}; no proxy detected`)
  })

  it('holdfast doctor names the setting for slow scripts of this version', async () => {
    await server.admin.config('SET', 'lua-time-limit', '100')
    try {
      const { check } = await report(['--redis', server.url])
      const setting = IS_BEFORE_7 ? 'lua-time-limit' : 'busy-reply-threshold'
      assert.deepEqual(check('script-limit').fix, `CONFIG SET ${setting} 5000`)
    } finally {
      await server.admin.config('SET', 'lua-time-limit', '5000')
    }
  })

  it('holdfast doctor distinguishes a cluster node from a single server', async () => {
    await using cluster = await startCluster({ masters: 3, replicasEach: 0 })
    const [first] = cluster.nodes
    assert(first)
    const { check } = await report(['--redis', first.url])
    assert.match(check('endpoint').message, /^a node of a cluster, \w+; no proxy detected$/)
    assert.equal(check('role').status, 'problem')
  })

  it('--acl prints a rule that this version of the server accepts', async () => {
    const run = await doctor(['--acl', '--prefix', 'shop:'], { REDIS_URL: server.url })
    assert.deepEqual([run.code, run.stderr, run.stdout], [0, '', `${aclRule('app', 'shop:', ENGINE_VERSION)}\n`])
    await paste(run.stdout)
    assert.match(run.stdout, /^ACL SETUSER app reset on >secret \+/)
    assert.equal(/\+(spublish|ssubscribe|sunsubscribe) /.test(run.stdout), !IS_BEFORE_7)
    for (const prefix of ['*', '{shop}:', 'r']) {
      await paste((await doctor(['--acl', '--redis', server.url, '--prefix', prefix])).stdout)
    }
  })

  it('--acl with the address of an unreachable server exits with 69 and prints no rule', async () => {
    const run = await doctor(['--acl', '--redis', `redis://127.0.0.1:${await freePort()}`])
    assert.deepEqual([run.code, run.stdout], [69, ''])
    assert.match(run.stderr, /depends on the version of the server.*ECONNREFUSED/)
  })

  it('the rule removes all other rights from a user that could do everything', async () => {
    const { admin } = server
    await admin.call('ACL', 'SETUSER', 'app', 'on', 'nopass', '+@all', '~*', 'allchannels')
    await paste(aclRule('app', 'shop:', ENGINE_VERSION))
    const app = admin.duplicate({ username: 'app', password: 'secret', retryStrategy: () => null, lazyConnect: true })
    try {
      await app.connect()
      await assert.rejects(app.flushall(), /NOPERM/)
      await assert.rejects(app.get('bank:1'), /NOPERM/)
      await assert.rejects(app.publish('news', '1'), /NOPERM/)
      await assert.rejects(app.call('AUTH', 'app', 'wrong'), /WRONGPASS/)
    } finally {
      app.disconnect()
    }
  })

  describe('a user with the rule for shop:', () => {
    before(async () => {
      await paste(aclRule('shop', 'shop:', ENGINE_VERSION))
    })

    it("a user with the rule for shop: has no missing and no excessive rights in the doctor's report", async () => {
      const { check } = await report(['--redis', urlOf('shop'), '--prefix', 'shop:'])
      for (const id of ['rights', 'trial-lock', 'pubsub']) {
        assert.equal(check(id).status, 'ok', `${id}: ${check(id).message}`)
      }
    })

    it('all kinds of locks and synchronizers work, and nothing is denied', async () => {
      await server.admin.acl('LOG', 'RESET')
      await using client = await connect(urlOf('shop'))
      await using other = await connect(urlOf('shop'))
      const warnings: string[] = []
      for (const one of [client, other]) one.on('warning', ({ message }) => warnings.push(message))
      for (const tag of ['a', '{a}']) {
        for (const kind of kinds) {
          const name = `shop:${tag}:${kind.name}`
          const hold = await kind.rival(other, name).lock()
          const waiting = kind.lock(client, name).lock()
          await hold.unlock()
          await (await waiting).unlock()
        }
        await synchronize(client, other, `shop:${tag}`)
      }
      assert.deepEqual([warnings, await server.admin.acl('LOG')], [[], []])
    })
  })

  // Before Redis 7 a server does not report what a user may do, and the doctor tries nothing harmful.
  it('holdfast doctor notes that a user may change locks with other prefixes', { skip: IS_BEFORE_7 }, async () => {
    await paste(`${aclRule('wide', 'shop:', ENGINE_VERSION)} ~redisson_lock_token:*`)
    const rights = (await report(['--redis', urlOf('wide'), '--prefix', 'shop:'])).check('rights')
    assert.equal(rights.status, 'note')
    assert.match(rights.message, /change locks whose names do not begin with shop:/)
  })

  it('holdfast doctor warns of missing rights to locks with braces in their names', async () => {
    const rule = aclRule('narrow', 'shop:', ENGINE_VERSION)
    await paste(rule.replace('~redisson_lock_token:shop:* ', ''))
    const rights = (await report(['--redis', urlOf('narrow'), '--prefix', 'shop:'])).check('rights')
    assert.equal(rights.status, 'warning')
    assert.equal(rights.message, 'no right to redisson_lock_token:shop:*, for fenced locks with braces in their names')
  })

  it('the rule denies the fencing counter, the turn queue and the channel of a lock with another prefix', async () => {
    await paste(aclRule('shop', 'shop:', ENGINE_VERSION))
    const shop = server.admin.duplicate({ username: 'shop', password: 'secret', retryStrategy: () => null })
    try {
      for (const name of ['bank:a', 'bank:{a}', '{bank:a}', '{bank}shop:']) {
        await assert.rejects(shop.set(fencingTokenKey(name), '1'), /NOPERM/)
        await assert.rejects(shop.lpop(turnQueueKey(name)), /NOPERM/)
        await assert.rejects(shop.publish(lockChannel(name), '0'), /NOPERM/)
      }
      assert.equal(await shop.set(fencingTokenKey('shop:a'), '1'), 'OK')
    } finally {
      shop.disconnect()
    }
  })
})

async function synchronize(client: Client, other: Client, name: string): Promise<void> {
  const semaphore = client.getSemaphore(`${name}:semaphore`)
  await semaphore.trySetPermits(1)
  await semaphore.acquire()
  const permit = other.getSemaphore(semaphore.name).acquire()
  await semaphore.release()
  await permit
  await semaphore.delete()
  const permits = client.getPermitExpirableSemaphore(`${name}:permits`)
  await permits.setPermits(1)
  const held = await permits.acquire()
  const next = other.getPermitExpirableSemaphore(permits.name).acquire()
  await held.unlock()
  await (await next).unlock()
  await permits.delete()
  const latch = client.getCountDownLatch(`${name}:latch`)
  await latch.trySetCount(1)
  const opened = other.getCountDownLatch(latch.name).await()
  await latch.countDown()
  await opened
}
