/**
 * The Redis users in docs/deploying.md, and `holdfast doctor --acl` for this version of the server, may do everything
 * that Holdfast does, and nothing more.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { aclRule, CLUSTER_COMMANDS, EXTRA_COMMANDS, namesOf, rightTo, SHARDED_COMMANDS } from '../../src/doctor/acl.js'
import { writeStateRequest } from '../../src/fleet/protocol.js'
import { type Client, type ConnectOptions, connect, type Hold } from '../../src/index.js'
import { CLIENT_PREFIX, INBOX_PREFIX, REPLY_PREFIX, turnQueueKey } from '../../src/wire/keys.js'
import { type Kind, kinds } from '../support/kinds.js'
import { keyNames } from '../support/redisson-twin/twin.js'
import { ENGINE_VERSION } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { codeBlocksOf } from './code-blocks.js'

/** Long enough for a busy machine, and renewed once a second. */
const lockWatchdogTimeoutMs = 3_000

/** The words of each ACL SETUSER in the page, without ACL, by user, for the newest versions of Redis. */
const shown = new Map(
  codeBlocksOf('docs/deploying.md')
    .map(({ lines }) => lines.join(' ').split(/\s+/))
    .filter(([first, second]) => first === 'ACL' && second === 'SETUSER')
    .map(([, ...words]) => [words[1] ?? '', words]),
)
/** How the rule for this server differs. */
const WORDS_HERE = aclRule('app', 'lock:', ENGINE_VERSION).split(' ')
const NEWEST_WORDS = aclRule('app', 'lock:').split(' ')
const unknownHere = (word: string): boolean => NEWEST_WORDS.includes(word) && !WORDS_HERE.includes(word)
const ONLY_HERE = WORDS_HERE.filter((word) => !NEWEST_WORDS.includes(word))

/** For replicas, clusters, other databases and other Redis clients: not used here. */
const NOT_USED_HERE = [
  ...[...SHARDED_COMMANDS, ...CLUSTER_COMMANDS, ...EXTRA_COMMANDS, 'wait'].map(rightTo),
  ...ONLY_HERE.map((word) => word.slice(1)),
]

/** Without lock names; they grant or end no lock. */
const OF_CLIENTS = [CLIENT_PREFIX, INBOX_PREFIX, REPLY_PREFIX]

/** The name in Redis of an object of a kind. */
type NameOf = (kind: Pick<Kind, 'name'>) => string
/** Most are put in braces: `redisson_lock_token:{lock:fair lock:1001}`. Names with braces are used as they are. */
const inBraces: NameOf = ({ name }) => `lock:${name}:1001`
const withBraces: NameOf = ({ name }) => `lock:{${name}}:1001`

/** The users, with the kinds of locks they are for; lock names begin with `lock:`. */
const users: readonly { user: string; kinds: readonly Kind[] }[] = [
  { user: 'app', kinds },
  {
    user: 'plain',
    kinds: kinds.filter(({ name }) => ['lock', 'non-reentrant lock', 'spin lock'].includes(name)),
  },
]

for (const { user, kinds } of users) {
  describe(`the rights of the user "${user}" in docs/deploying.md`, () => {
    const words = [...(shown.get(user) ?? []).filter((word) => !unknownHere(word)), ...ONLY_HERE]
    let server: RedisServer
    let url: string

    before(async () => {
      assert.ok(words.length > 0, `there is no block that begins with ACL SETUSER ${user}`)
      server = await startRedis()
      await server.admin.call('ACL', ...words)
      url = urlOf(user)
    })

    after(async () => {
      await server.stop()
    })

    it(`the rights of "${user}" suffice for ioredis, and all of the commands are used`, async () => {
      const redis = new Redis(url)
      try {
        await exerciseAll({ client: redis }, inBraces)
      } finally {
        redis.disconnect()
      }
    })

    it(`the rights of "${user}" suffice for node-redis and names with braces, and all commands are used`, async () => {
      const redis = await createClient({ url }).connect()
      try {
        await exerciseAll({ client: redis }, withBraces)
      } finally {
        redis.destroy()
      }
    })

    it(`the rights of "${user}" do not include keys and channels of locks with other names`, async () => {
      const redis = new Redis(url, { retryStrategy: () => null })
      try {
        for (const name of ['bank:1001', 'bank:{lock:}1001', '{bank}lock:1001']) {
          const { keys, channels } = namesOf(name, 'app')
          for (const [key] of keys) {
            if (OF_CLIENTS.includes(key)) continue
            await assert.rejects(redis.del(key), /NOPERM/, key)
          }
          for (const channel of channels.keys()) {
            if (OF_CLIENTS.includes(channel)) continue
            await assert.rejects(redis.publish(channel, '0'), /NOPERM/, channel)
            await assert.rejects(redis.subscribe(channel), /NOPERM/, channel)
          }
        }
      } finally {
        redis.disconnect()
      }
    })

    const patterns = words.filter((word) => /^[~&]/.test(word))
    for (const pattern of patterns) {
      it(`the rights of "${user}" have no excess key or channel: without ${pattern} something is denied`, async () => {
        const { admin } = server
        const rest = words.slice(2).filter((word) => word !== pattern)
        await admin.call('ACL', 'SETUSER', 'less', 'reset', ...rest)
        await admin.acl('LOG', 'RESET')
        await using holder = await connect(server.url)
        await using client = await connect(urlOf('less'))
        const warnings: (string | undefined)[] = []
        client.on('warning', (warning) => warnings.push((warning as { code?: string }).code))
        const prefix = pattern.slice(1, -1)
        const nameOf = prefix.includes('{') ? inBraces : withBraces
        await Promise.all(
          kinds.map(async (kind) => {
            const name = nameOf(kind)
            const hold = await kind.rival(holder, name).lock()
            const take = (waitTimeMs: number) => kind.lock(client, name).lock({ waitTimeMs })
            await Promise.allSettled([take(100)])
            await hold.unlock()
            await Promise.allSettled([take(5_000).then((taken) => taken.unlock())])
            await Promise.allSettled([kind.rival(holder, name).lock({ waitTimeMs: 5_000, leaseTimeMs: 5_000 })])
            await Promise.allSettled(kind.parts(client, name).map((part) => part.forceUnlock()))
          }),
        )
        if (user === 'app') {
          await touchSynchronizers((kind) => nameOf({ name: kind }), client)
          await recordJobs((kind) => nameOf({ name: kind }), client).catch(() => {})
          await client.locks.request(nameOf({ name: 'web lock' }), () => {}).catch(() => {})
        }
        await askForState(client, () => warnings.includes('INSPECTION_REFUSED'))
        const refused = (await refusals()).map(({ object }) => object)
        assert.ok(refused.length > 0)
        assert.deepEqual(
          refused.filter((object) => !object.startsWith(prefix)),
          [],
        )
      })
    }

    function urlOf(name: string): string {
      return server.url.replace('//', `//${name}:secret@`)
    }

    /** Does everything that is possible with each kind, concurrently: nothing may be denied. */
    async function exerciseAll(options: ConnectOptions, nameOf: NameOf): Promise<void> {
      const { admin } = server
      await admin.acl('LOG', 'RESET')
      await admin.script('FLUSH') // EVAL has to be allowed too
      await admin.config('RESETSTAT')
      const complaints: string[] = []
      {
        await using client = await connect({ ...options, lockWatchdogTimeoutMs })
        await using other = await connect({ url, lockWatchdogTimeoutMs })
        client.on('warning', ({ message }) => complaints.push(message))
        client.on('lost', ({ error }) => complaints.push(error.message))
        await Promise.all(kinds.map((kind) => exercise(kind, nameOf(kind), client, other)))
        if (user === 'app') {
          await exerciseMore(client)
          await exerciseSynchronizers((kind) => nameOf({ name: kind }), client, other)
          await recordJobs((kind) => nameOf({ name: kind }), client)
          await client.locks.request(nameOf({ name: 'web lock' }), async () => await client.locks.query())
        }
        await askForState(client, () => false)
        const left = async () =>
          (await admin.keys('*')).filter(
            (key) =>
              !/^(redisson_lock_token|holdfast_generation|holdfast_client|holdfast_job):|^holdfast_(jobs|web_locks)$/.test(
                key,
              ),
          )
        await waitUntil(async () => (await left()).length === 0, { message: 'all is released' })
      }
      assert.deepEqual(complaints, [])
      assert.deepEqual(await refusals(), [])
      const used = new Set(
        [...(await admin.info('commandstats')).matchAll(/^cmdstat_(\w+):/gm)].map(([, name]) => name),
      )
      const granted = words.filter((word) => word.startsWith('+')).map((word) => word.slice(1))
      assert.deepEqual(
        granted.filter((command) => !used.has(command) && !NOT_USED_HERE.includes(command)),
        [],
        'a command is granted and not used',
      )
    }

    /** Waiting and giving up, release, re-entry, renewal, inspection, transfer and force. */
    async function exercise(kind: Kind, name: string, client: Client, other: Client): Promise<void> {
      const lock = kind.lock(client, name)
      const parts = kind.parts(client, name)
      const giveUp = new AbortController()

      const busy = await kind.rival(other, name).lock()
      const waiting = [lock.lock(), lock.lock()]
      const aborted = assert.rejects(lock.lock({ signal: giveUp.signal }), { name: 'AbortError' })
      if (kind.isAnnounced) {
        const seen = async (): Promise<unknown[]> => [
          ...(await server.admin.pubsub('CHANNELS', `*${name}*`)),
          ...(await server.admin.keys(`holdfast_turn_queue:*${name}*`)),
        ]
        await waitUntil(async () => (await seen()).length > 0, { message: `a caller waits for ${name}` })
      }
      if (kind.name === 'lock') {
        await waitUntil(async () => (await server.admin.exists(turnQueueKey(name))) === 1, {
          message: 'it is queued',
        })
      }
      giveUp.abort()
      await aborted
      await busy.unlock()
      await Promise.all(waiting.map(async (taken) => await (await taken).unlock()))

      await lock.withLock(async (hold) => {
        if (kind.isReentrant) await lock.withLock(() => {})
        for (const part of parts) {
          assert.equal(await part.isLocked(), true)
          assert.equal((await part.getHolders()).length, 1)
          assert.ok((await part.remainingLeaseMs()) > 0)
        }
        assert.equal(await hold.isHeld(), true)
        await renewal(hold)
      })

      const [part] = parts
      if (kind.isAdoptable) {
        const holder = (await lock.lock()).handOver()
        const adopter = kind.parts(other, name)[0]
        await (await adopter?.adopt(holder))?.unlock()
      }

      const forced = await kind.lock(other, name).lock({ leaseTimeMs: 60_000 })
      for (const part of parts) assert.equal(await part.forceUnlock(), true)
      assert.equal(await part?.forceUnlock(), false)
      await assert.rejects(forced.unlock(), { code: 'LOCK_LEASE_LOST' })
    }

    /** What only one kind has. */
    async function exerciseMore(client: Client): Promise<void> {
      const fenced = client.getFencedLock('lock:more:fenced')
      await fenced.withLock(async ({ fencingToken }) => assert.equal(await fenced.getToken(), fencingToken))

      const both = client.getReadWriteLock('lock:more:read-write')
      const write = await both.writeLock().lock()
      const read = await both.readLock().lock({ within: write })
      await (await both.readLock().lock({ within: read })).unlock()
      await write.unlock()
      await (await both.readLock().lock()).unlock()
      await renewal(read)
      await read.unlock()

      const fair = client.getFairLock('lock:more:fair')
      await besideFrozen(fair.name, () => fair.withLock(() => {}))
    }

    /** With a waiter in the queue of a fair lock that was woken and never came: others of its client get less time. */
    async function besideFrozen(name: string, task: () => Promise<unknown>): Promise<void> {
      const { queue, deadlines, fairChannel } = keyNames(name)
      const listener = server.admin.duplicate()
      try {
        await listener.subscribe(fairChannel('frozen:1'))
        await server.admin.zadd(deadlines, `${Date.now() - 1_000}.5`, 'frozen:1')
        await server.admin.rpush(queue, 'frozen:1')
        await task()
      } finally {
        listener.disconnect()
      }
    }

    /** Waiting, releasing, renewal, inspection, and changing the number; `other` holds what is waited for. */
    async function exerciseSynchronizers(
      nameOf: (kind: string) => string,
      client: Client,
      other: Client,
    ): Promise<void> {
      const semaphore = client.getSemaphore(nameOf('semaphore'))
      assert.equal(await semaphore.trySetPermits(1, { timeToLiveMs: 60_000 }), true)
      assert.equal(await other.getSemaphore(semaphore.name).tryAcquire(), true)
      const taken = semaphore.acquire()
      await somebodyListens(`redisson_sc:*${semaphore.name}*`)
      await other.getSemaphore(semaphore.name).release()
      await taken
      await semaphore.addPermits(3)
      await semaphore.reducePermits(1)
      assert.equal(await semaphore.drainPermits(), 2)
      assert.equal(await semaphore.releaseIfExists(), true)
      await semaphore.withPermit(async () => assert.equal(await semaphore.availablePermits(), 0))
      assert.equal(await semaphore.delete(), true)

      const permits = client.getPermitExpirableSemaphore(nameOf('permits'))
      assert.equal(await permits.trySetPermits(2), true)
      const busy = await other.getPermitExpirableSemaphore(permits.name).acquire({ permits: 2 })
      const waiting = permits.acquire()
      await somebodyListens(`redisson_sc:*${permits.name}*`)
      await busy.unlock()
      const permit = await waiting
      await renewal(permit)
      assert.equal(await permit.isHeld(), true)
      await permit.unlock()
      const passedOn = await other.getPermitExpirableSemaphore(permits.name).acquire({ leaseTimeMs: 60_000 })
      const [id = ''] = passedOn.permitIds
      assert.equal(await permits.updateLeaseTime(id, 120_000), true)
      assert.ok((await permits.getLeaseTime(id)) > 60_000)
      assert.equal(await permits.acquiredPermits(), 1)
      await permits.release(id)
      await permits.setPermits(5)
      await permits.addPermits(2)
      await permits.reducePermits(1)
      assert.equal(await permits.getPermits(), 6)
      assert.equal(await permits.delete(), true)

      const latch = client.getCountDownLatch(nameOf('latch'))
      assert.equal(await latch.trySetCount(2), true)
      const opened = latch.await()
      await somebodyListens(`redisson_countdownlatch__channel__*${latch.name}*`)
      await latch.countDown()
      assert.equal(await latch.getCount(), 1)
      await latch.countDown()
      assert.equal(await opened, true)
      assert.equal(await latch.trySetCount(1), true)
      assert.equal(await latch.delete(), true)
    }

    /** As `holdfast run` does. */
    async function recordJobs(nameOf: (kind: string) => string, client: Client): Promise<void> {
      const name = nameOf('job')
      const run = { name, holder: 'a:1', label: '', everyMs: 1_000 }
      await client.fleet.recordJob({ ...run, ranMs: 0 }, 10_000)
      await client.fleet.recordJob({ ...run, ranMs: 1, exitCode: 0 }, 10_000)
    }

    /** Uses every key and channel of the synchronizers, ignoring denials. */
    async function touchSynchronizers(nameOf: (kind: string) => string, client: Client): Promise<void> {
      const latch = client.getCountDownLatch(nameOf('latch'))
      await Promise.allSettled([
        client.getSemaphore(nameOf('semaphore')).release(),
        client.getPermitExpirableSemaphore(nameOf('permits')).tryAcquire({ leaseTimeMs: 10_000 }),
        latch.trySetCount(1).then(async () => await latch.delete()),
      ])
    }

    /** Somebody asks a client what it holds: it replies, or is refused. */
    async function askForState({ id }: Client, isRefused: () => boolean): Promise<void> {
      const channel = REPLY_PREFIX + '0'.repeat(32)
      const asker = server.admin.duplicate()
      let hasReplied = false
      asker.on('message', () => (hasReplied = true))
      try {
        await asker.subscribe(channel)
        const request = writeStateRequest({ reply: channel, limit: 1 })
        const receivers = await server.admin.publish(INBOX_PREFIX + id, request)
        const isOver = (): boolean => hasReplied || isRefused() || receivers === 0
        await waitUntil(isOver, { message: 'the client replies, or is refused' })
      } finally {
        asker.disconnect()
      }
    }

    async function somebodyListens(pattern: string): Promise<void> {
      await waitUntil(async () => (await server.admin.pubsub('CHANNELS', pattern)).length > 0, {
        message: `a caller waits on ${pattern}`,
      })
    }

    async function refusals(): Promise<{ reason: string; object: string }[]> {
      const entries = (await server.admin.acl('LOG')) as string[][]
      return entries.map((entry) => {
        const field = (name: string): string => String(entry[entry.indexOf(name) + 1])
        return { reason: field('reason'), object: field('object') }
      })
    }
  })
}

async function renewal(hold: Hold): Promise<void> {
  let left = hold.remainingMs()
  const isRenewed = (): boolean => {
    const before = left
    left = hold.remainingMs()
    return left > before
  }
  await waitUntil(isRenewed, { message: `a renewal of ${hold.lockName}` })
}

describe('the rights of the user "operator" in docs/deploying.md', () => {
  it('the rights of the operator suffice to break the locks of the user "app", and are all needed', async () => {
    const server = await startRedis()
    const { admin } = server
    try {
      const app = [...(shown.get('app') ?? []).filter((word) => !unknownHere(word)), ...ONLY_HERE]
      const more = (shown.get('operator') ?? []).slice(2)
      await admin.call('ACL', ...app)
      const outcomeWith = async (words: readonly string[]): Promise<string> => {
        await admin.call('ACL', 'SETUSER', 'operator', ...app.slice(2), ...words)
        // Described, it would be interrupted.
        await using holder = await connect({ url: server.url.replace('//', '//app:secret@'), inspection: false })
        await using operator = await connect(server.url.replace('//', '//operator:secret@'))
        const complaints: string[] = []
        operator.on('warning', ({ message }) => complaints.push(message))
        return await Promise.all(
          ['lock:a', 'lock:{a}'].map(async (name) => {
            const hold = await holder.getLock(name).lock()
            const { outcome } = await operator
              .getLock(name)
              .forceUnlock({ holder: hold.holder, graceMs: 0, anyway: true })
            return complaints.length > 0 ? 'not recorded' : outcome
          }),
        ).then(String, (error: Error) => (/NOPERM/.test(error.message) ? 'denied' : error.message))
      }
      assert.equal(await outcomeWith(more), 'freed,freed')
      for (const word of more) {
        const outcome = await outcomeWith(more.filter((other) => other !== word))
        assert.match(outcome, /denied|not recorded/, word)
      }
    } finally {
      await server.stop()
    }
  })
})
