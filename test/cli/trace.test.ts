/** `holdfast who --trace`: from where a holder is renewed, by the MONITOR of a real server. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import type { Redis } from 'ioredis'
import { RenewalReader, traceHolders } from '../../src/cli/operate/trace.js'
import { connect } from '../../src/index.js'
import { configFolder, SECRET, withUser } from '../support/doctor.js'
import { plainClient } from '../support/plain-client.js'
import type { Child } from '../support/processes/child.js'
import { spawnHoldfast } from '../support/processes/holdfast-command.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f:41'
/** As Redisson does it. */
const RENEWAL = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end;
  return 0;`

function addressOf({ stream }: Redis): string {
  return `127.0.0.1:${(stream as { localPort?: number }).localPort}`
}

/** The connections of Holdfast itself: those that nobody else opened. */
async function ownAddresses(others: readonly Redis[]): Promise<string[]> {
  const [admin] = others as [Redis]
  const known = await Promise.all(others.map((other) => other.client('ID')))
  const connections = String(await admin.client('LIST')).matchAll(/^id=(\d+) addr=(\S+)/gm)
  return [...connections].flatMap(([, id, address = '']) => (known.includes(Number(id)) ? [] : [address]))
}

describe('holdfast who --trace', () => {
  const file = configFolder()
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  afterEach(async () => await server.admin.flushall())
  after(() => server.stop())

  function who(url: string, ...args: string[]): Child {
    const child = spawnHoldfast(url, ['who', ...args])
    child.endCommands()
    return child
  }

  it('holdfast who --trace names the address of an unlisted holder, and shows no other command', async () => {
    const [java, redis] = [await plainClient(server.url), await plainClient(server.url)]
    await using client = await connect({ client: redis, inspection: false, lockWatchdogTimeoutMs: 3_000 })
    try {
      const own = await ownAddresses([server.admin, java, redis])
      const hold = await client.getReadWriteLock('lock:a "b"').readLock().lock()
      await server.admin.hset(hold.lockName, JAVA, 1, `{${hold.lockName}}:${JAVA}:rwlock_timeout:1`, 1)
      await server.admin.set(`{${hold.lockName}}:${JAVA}:rwlock_timeout:1`, 1, 'PX', 600_000)
      const child = who(server.url, hold.lockName, '--trace', '--timeout', '60s', '--json')
      let isOver = false
      void child.exit.then(() => (isOver = true))
      const shown = child.nextMessage<{ holders: { holder: string; address?: string }[] }>(() => true, 90_000)
      shown.catch(() => {})
      while (!isOver) {
        await java.eval(RENEWAL, 1, hold.lockName, 60_000, JAVA)
        await java.set('card', SECRET)
        await java.eval("return redis.call('set', KEYS[1], ARGV[1])", 1, hold.lockName.slice(1), SECRET)
      }
      const { holders } = await shown
      assert.equal(own.length, 1)
      assert.deepEqual(
        new Map(holders.map(({ holder, address }) => [holder, address])),
        new Map([
          [hold.holder, own[0]],
          [JAVA, addressOf(java)],
        ]),
      )
      assert.match(
        child.stderr,
        /^holdfast: MONITOR shows this program all commands of 127\.0\.0\.1:\d+, for 1m 0s or /,
      )
      assert.ok(!(child.stdout + child.stderr).includes(SECRET))
      await hold.unlock()
    } finally {
      java.disconnect()
      redis.disconnect()
    }
  })

  it('holdfast who --trace says that a holder was not seen', async () => {
    await server.admin.hset('lock:a', JAVA, 1)
    const child = who(server.url, 'lock:a', '--trace', '--timeout', '300ms')
    assert.equal((await child.exit).code, 0, child.stderr)
    assert.match(child.stdout, /\n {4}from {4}not seen: it was not renewed meanwhile\n/)
  })

  it('holdfast who --trace needs the right to MONITOR, and exits with 77', async () => {
    await server.admin.hset('lock:a', JAVA, 1)
    await server.admin.call('ACL', 'SETUSER', 'someone', 'on', `>${SECRET}`, '+@all', '-monitor', '~*', '&*')
    const child = who(withUser(server, 'someone', SECRET), 'lock:a', '--trace')
    assert.deepEqual([(await child.exit).code, child.stdout], [77, ''])
    assert.match(child.stderr, /\nholdfast: Redis refuses MONITOR: NOPERM .*'monitor'.* \+monitor\n$/)
  })

  it('holdfast who --trace does not run MONITOR for a lock that is free', async () => {
    const child = who(server.url, 'lock:a', '--trace')
    assert.deepEqual([(await child.exit).code, child.stderr], [1, ''])
  })

  it('holdfast who --trace asks the master of the slot in a cluster', async () => {
    await using cluster = await startCluster({ replicasEach: 0 })
    const addresses = cluster.nodes.map(({ url }) => `    - "${url}"`).join('\n')
    const config = file('cluster.yaml', `clusterServersConfig:\n  nodeAddresses:\n${addresses}\n`)
    for (const lock of ['lock:a', 'lock:b', 'lock:c']) {
      const java = await plainClient((await cluster.nodeOf(lock)).url)
      try {
        const traced = traceHolders({ target: { config }, subject: lock, traceMs: 60_000 }, [JAVA])
        let isOver = false
        void traced.finally(() => (isOver = true)).catch(() => {})
        while (!isOver) await java.eval(RENEWAL, 1, lock, 60_000, JAVA).then(() => java.hset(lock, JAVA, 1))
        assert.deepEqual([...(await traced)], [[JAVA, addressOf(java)]])
      } finally {
        java.disconnect()
      }
    }
  })
})

describe('the output of MONITOR', () => {
  const line = (source: string, ...words: string[]): string => `+1700000000.1 [0 ${source}] ${words.join(' ')}\r\n`
  const evalsha = ['"evalsha"', '"sha"', '"1"', '"l"', '"30000"', '"h:1"']

  function read(...chunks: string[]): [string, string][] {
    const reader = new RenewalReader('l', ['h:1', 'h:2'], 0)
    for (const chunk of chunks) reader.read(chunk)
    return [...reader.addresses]
  }

  it('the output of MONITOR shows a renewal, however it is cut', () => {
    const text =
      line('[::1]:5', ...evalsha) + line('lua', '"hexists"', '"l"', '"h:1"') + line('lua', '"PEXPIRE"', '"l"')
    assert.deepEqual(read(text), [['h:1', '[::1]:5']])
    assert.deepEqual(read(...text), [['h:1', '[::1]:5']])
  })

  it('the output of MONITOR shows no renewal where another command, lock, holder or database is named', () => {
    const renewal = line('lua', '"pexpire"', '"l"', '"1"')
    const call = line('1.2.3.4:5', ...evalsha)
    const quoted = line('1.2.3.4:5', '"eval"', '"a \\"l\\" \\"h:1\\""')
    for (const text of [
      renewal,
      call,
      call + line('1.2.3.4:6', '"ping"') + renewal,
      call + line('lua', '"pexpire"', '"ll"', '"1"'),
      call.replace('"h:1"', '"h:3"') + renewal,
      quoted + renewal,
      call.replace('[0 ', '[1 ') + renewal.replace('[0 ', '[1 '),
      `+1700000000.1 [0 1.2.3.4:5] "set" "${'x'.repeat(2_000_000)}`,
    ]) {
      assert.deepEqual(read(text), [], text.slice(0, 200))
    }
    const long = `+1700000000.1 [0 1.2.3.4:5] "set" "${'x'.repeat(2_000_000)}`
    assert.deepEqual(read(long, call, renewal), [])
    assert.deepEqual(read(long, '\r\n', call, renewal), [['h:1', '1.2.3.4:5']])
  })
})
