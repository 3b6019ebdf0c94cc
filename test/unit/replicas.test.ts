/** When the grant of a server counts: what the server says, what its replicas say, and what the deployment says. */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { describe, it } from 'node:test'
import { type NodeRedisSentinelLike, NodeRedisSentinelPort } from '../../src/adapters/node-redis/sentinel.js'
import type { RedisPort } from '../../src/adapters/port.js'
import { type MasterStatus, Replicas, type ReplicasOptions } from '../../src/adapters/replicas.js'
import { SentinelMasterStatus } from '../../src/adapters/sentinel-master-status.js'
import { Replication } from '../../src/delivery/replica-acks.js'
import { Scripts } from '../../src/delivery/scripts.js'
import { SystemClock } from '../../src/util/clock.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

const CURRENT: MasterStatus = { replicas: 2, isConfirmed: true, isPartial: false }

interface Server {
  runId?: string
  role?: string
  connected: number
  acknowledged?: number
  /** How long WAIT takes, ms. */
  waitMs?: number
  queried?: string[]
}

function replicasOf(server: Server, options: ReplicasOptions = {}): Replicas {
  return new Replicas(async (...command) => {
    server.queried?.push(command.join(' '))
    if (command[0] === 'WAIT') {
      await new Promise((resolve) => setTimeout(resolve, server.waitMs ?? 0))
      return server.acknowledged ?? server.connected
    }
    if (command[1] === 'server') return `run_id:${server.runId ?? 'r1'}\r\n`
    return `# Replication\r\nrole:${server.role ?? 'master'}\r\nconnected_slaves:${server.connected}\r\n`
  }, options)
}

describe('Replicas.acknowledge', () => {
  it('Replicas.acknowledge counts what one of the replicas acknowledged', async () => {
    assert.deepEqual(await replicasOf({ connected: 2, acknowledged: 1 }).acknowledge('k', 10), {
      replicas: 2,
      acknowledged: 1,
    })
  })

  it('Replicas.acknowledge queries no server where there are no replicas and never were', async () => {
    const queried: string[] = []
    const server = { connected: 0, queried }
    assert.deepEqual(await replicasOf(server).acknowledge('k', 10), { replicas: 0, acknowledged: 0 })
    assert.deepEqual(queried, ['INFO replication'])
  })

  it('Replicas.acknowledge asks once more if all replies were late; later only after a reply', async () => {
    const replies: (MasterStatus | undefined)[] = [undefined, { ...CURRENT, refusal: 'replaced' }]
    let asked = 0
    const masterStatus = async () => replies[asked++]
    const stalled = replicasOf({ connected: 2 }, { masterStatus })
    assert.equal((await stalled.acknowledge('k', 10)).why, 'replaced')
    replies.length = 0
    const silent = replicasOf({ connected: 2 }, { masterStatus })
    asked = 0
    assert.equal((await silent.acknowledge('k', 10)).acknowledged, 2)
    assert.equal(asked, 2)
    silent.reset()
    assert.equal((await silent.acknowledge('k', 10)).acknowledged, 2)
    assert.equal(asked, 3)
  })

  it('Replicas.acknowledge asks once more about the same run, although the connection moved', async () => {
    const server = { connected: 2, runId: 'r1' }
    const asked: string[] = []
    let next: Promise<unknown> | undefined
    const masterStatus = async (runId: string) => {
      asked.push(runId)
      if (asked.length > 1) return CURRENT
      server.runId = 'r2'
      replicas.reset()
      next = replicas.acknowledge('k', 10)
      await new Promise(setImmediate)
      return undefined
    }
    const replicas = replicasOf(server, { masterStatus })
    await replicas.acknowledge('k', 10)
    await next
    assert.deepEqual(asked, ['r1', 'r2', 'r1'])
  })

  it('Replicas.acknowledge refuses a replica', async () => {
    const { acknowledged, why } = await replicasOf({ role: 'slave', connected: 0 }).acknowledge('k', 10)
    assert.deepEqual([acknowledged, why], [0, 'it is a slave'])
  })

  it('Replicas.acknowledge refuses a master without replicas if some are configured', async () => {
    const { replicas, why } = await replicasOf({ connected: 0 }, { isReplicated: true }).acknowledge('k', 10)
    assert.equal(replicas, 1)
    assert.match(why ?? '', /no replicas/)
  })

  it('Replicas.acknowledge refuses a master whose replicas are gone, also by a new connection', async () => {
    const server = { connected: 1 }
    const replicas = replicasOf(server)
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
    server.connected = 0
    replicas.reset()
    assert.match((await replicas.acknowledge('k', 10)).why ?? '', /no replicas/)
  })

  it('Replicas.acknowledge refuses a master whose replicas have just gone, even if confirmed', async () => {
    const server = { connected: 2, runId: 'r1' }
    let status = CURRENT
    const replicas = replicasOf(server, { masterStatus: async () => status })
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 2)
    server.connected = 0
    replicas.reset()
    assert.match((await replicas.acknowledge('k', 10)).why ?? '', /no replicas/)
    status = { ...CURRENT, replicas: 0 }
    server.runId = 'r2'
    replicas.reset()
    assert.equal((await replicas.acknowledge('k', 10)).why, undefined, 'another server, of which no replica is up')
  })

  it('Replicas.acknowledge refuses such a master even after a connection to another in between', async () => {
    const server = { connected: 2, runId: 'r1' }
    const replicas = replicasOf(server, { masterStatus: async () => CURRENT })
    await replicas.acknowledge('k', 10)
    for (const runId of ['r2', 'r1']) {
      Object.assign(server, { connected: 0, runId })
      replicas.reset()
      const { why } = await replicas.acknowledge('k', 10)
      if (runId === 'r1') assert.match(why ?? '', /no replicas/)
    }
  })

  it('Replicas.acknowledge believes a master without replicas if the deployment confirms that', async () => {
    const masterStatus = async () => ({ ...CURRENT, replicas: 0 })
    for (const isReplicated of [true, false]) {
      const replicas = replicasOf({ connected: 0 }, { isReplicated, masterStatus })
      assert.deepEqual(await replicas.acknowledge('k', 10), { replicas: 0, acknowledged: 0 })
    }
  })

  it('Replicas.acknowledge refuses a master for 10 s while the deployment believes a replica is up', async () => {
    for (const runId of ['r1', '']) {
      const clock = new FakeClock()
      const server = { connected: 0, runId }
      const replicas = replicasOf(server, { clock, masterStatus: async () => ({ ...CURRENT, replicas: 1 }) })
      for (const ms of [0, 5_000, 4_999]) {
        await clock.advance(ms)
        assert.match((await replicas.acknowledge('k', 10)).why ?? '', /no replicas/)
      }
      await clock.advance(1)
      const trusted = { replicas: 0, acknowledged: 0 }
      assert.deepEqual(await replicas.acknowledge('k', 10), trusted, `run ${JSON.stringify(runId)}`)
      server.connected = 1
      assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
    }
  })

  const silences: Record<string, () => Promise<MasterStatus | undefined>> = {
    'nobody replies': async () => undefined,
    'only some reply': async () => ({ ...CURRENT, isConfirmed: false }),
    'a query fails': async () => {
      throw new Error('down')
    },
  }
  for (const [what, masterStatus] of Object.entries(silences)) {
    it(`Replicas.acknowledge refuses a master without replicas while ${what}`, async () => {
      const replicas = replicasOf({ connected: 0 }, { isReplicated: true, masterStatus })
      assert.match((await replicas.acknowledge('k', 10)).why ?? '', /no replicas/)
    })
  }

  it('Replicas.acknowledge counts an acknowledgement while nobody else replies', async () => {
    const replicas = replicasOf({ connected: 1 }, { isReplicated: true, masterStatus: async () => undefined })
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
  })

  for (const [what, unconfirmed] of [
    ['are silent', undefined],
    ['are silent but for a few', { ...CURRENT, isConfirmed: false }],
  ] as const) {
    it(`Replicas.acknowledge refuses a master for 10 s once those who had confirmed it ${what}`, async () => {
      const clock = new FakeClock()
      let status: MasterStatus | undefined = CURRENT
      const replicas = replicasOf({ connected: 1 }, { clock, masterStatus: async () => status })
      const isCounted = async (afterMs: number): Promise<boolean> => {
        await clock.advance(afterMs)
        const { acknowledged, why } = await replicas.acknowledge('k', 10)
        if (acknowledged === 0) assert.match(why ?? '', /do not confirm it/)
        return acknowledged === 1
      }
      assert(await isCounted(0))
      status = unconfirmed
      for (const ms of [1_000, 1, 9_998]) assert.equal(await isCounted(ms), false)
      assert(await isCounted(1), 'by then a replaced master is demoted')
      status = CURRENT
      assert(await isCounted(1_000))
      status = unconfirmed
      assert.equal(await isCounted(1_000), false, 'silent again')
      status = CURRENT
      assert(await isCounted(1), 'and back')
    })
  }

  it('Replicas.acknowledge refuses a master that has lost a replica while a Sentinel is silent', async () => {
    const server = { connected: 2 }
    let status = { ...CURRENT, isPartial: true }
    const replicas = replicasOf(server, { masterStatus: async () => status })
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 2)
    server.connected = 1 // the other one may have been promoted by the Sentinel that is silent
    replicas.reset()
    assert.match((await replicas.acknowledge('k', 10)).why ?? '', /do not confirm it/)
    for (const known of [
      { ...status, isPartial: false },
      { ...status, replicas: 1 },
    ]) {
      status = known
      assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
      replicas.reset()
    }
  })

  it('Replicas.acknowledge refuses a master without replicas, of which nobody tells any more, for 10 s in all', async () => {
    const clock = new FakeClock()
    const server = { connected: 2 }
    let status: MasterStatus | undefined = CURRENT
    const replicas = replicasOf(server, { clock, masterStatus: async () => status })
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 2)
    server.connected = 0
    status = undefined
    replicas.reset()
    assert.match((await replicas.acknowledge('k', 10)).why ?? '', /no replicas/)
    await clock.advance(10_000)
    assert.deepEqual(await replicas.acknowledge('k', 10), { replicas: 0, acknowledged: 0 })
  })

  it('Replicas.acknowledge refuses a master that was about to be replaced when all fell silent', async () => {
    let status: MasterStatus | undefined = { ...CURRENT, refusal: 'about to be replaced' }
    const replicas = replicasOf({ connected: 1 }, { masterStatus: async () => status })
    assert.equal((await replicas.acknowledge('k', 10)).why, 'about to be replaced')
    status = undefined
    assert.match((await replicas.acknowledge('k', 10)).why ?? '', /do not confirm it/)
  })

  it('Replicas.acknowledge refuses a master that was replaced, although a replica acknowledges', async () => {
    const masterStatus = async () => ({ ...CURRENT, refusal: 'replaced' })
    const { acknowledged, why } = await replicasOf({ connected: 1 }, { isReplicated: true, masterStatus }).acknowledge(
      'k',
      9,
    )
    assert.deepEqual([acknowledged, why], [0, 'replaced'])
  })

  it('Replicas.acknowledge asks the deployment again when the server was slower than a failover', async () => {
    const statuses: MasterStatus[] = [CURRENT, { ...CURRENT, refusal: 'replaced meanwhile' }]
    const masterStatus = async () => statuses.shift()
    const server = { connected: 2, waitMs: 1_100 }
    const { acknowledged, why } = await replicasOf(server, { isReplicated: true, masterStatus }).acknowledge('k', 5_000)
    assert.deepEqual([acknowledged, why], [0, 'replaced meanwhile'])
  })

  it('Replicas.acknowledge refuses a master that is demoted while the deployment is queried', async () => {
    const server: Server = { connected: 0 }
    const masterStatus = async () => {
      server.role = 'slave'
      return CURRENT // the view of both by then: another server is the master
    }
    const { why } = await replicasOf(server, { isReplicated: true, masterStatus }).acknowledge('k', 10)
    assert.equal(why, 'it is a slave')
  })

  it('Replicas.acknowledge asks the deployment again when a replica left, although another confirms', async () => {
    let status: MasterStatus = CURRENT
    const server: Server = { connected: 2, acknowledged: 1 }
    const replicas = replicasOf(server, { masterStatus: async () => status })
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
    // SENTINEL FAILOVER: the replica that takes over leaves the master, and the other one stays for a second or two.
    server.connected = 1
    status = { ...CURRENT, refusal: 'about to be replaced' }
    assert.equal((await replicas.acknowledge('k', 10)).why, 'about to be replaced')
    status = CURRENT
    assert.equal((await replicas.acknowledge('k', 10)).acknowledged, 1)
  })

  it('Replicas.acknowledge queries the deployment at most once a second', async () => {
    let queried = 0
    const masterStatus = async () => {
      queried++
      return CURRENT
    }
    const replicas = replicasOf({ connected: 2 }, { isReplicated: true, masterStatus })
    for (let n = 0; n < 20; n++) await replicas.acknowledge('k', 10)
    assert.equal(queried, 1)
  })
})

interface FakeSentinel {
  runId?: string
  address?: string
  named?: string
  flags?: string
  epoch?: number
  replicas?: string[]
  isSilent?: boolean
}

/** What a Sentinel replies. */
function reply(
  {
    runId = 'r1',
    address = 'm:1',
    named = address,
    flags = 'master',
    epoch = 3,
    replicas = ['slave', 'slave'],
  }: FakeSentinel,
  what: string | undefined,
): unknown {
  const [ip, portOf] = address.split(':')
  if (what === 'GET-MASTER-ADDR-BY-NAME') return named.split(':')
  if (what === 'REPLICAS') return replicas.map((text) => ['flags', text])
  if (what === 'MASTER') return ['ip', ip, 'port', portOf, 'runid', runId, 'flags', flags, 'config-epoch', `${epoch}`]
  if (what === 'MASTERS') return [['name', 'mymaster']]
  return []
}

function sentinels(...fakes: FakeSentinel[]): SentinelMasterStatus {
  const addresses = fakes.map((_, index) => ({ host: 's', port: index }))
  const open = ({ port }: { port: number }) => {
    return {
      isOpen: true,
      end: () => {},
      async call(_: string, what?: string): Promise<unknown> {
        if (fakes[port]?.isSilent) return await new Promise(() => {})
        return reply(fakes[port] ?? {}, what)
      },
    }
  }
  return new SentinelMasterStatus('mymaster', addresses, open, false)
}

const SELF = 'r1'
const sentinelAt = (port: number): object => ({ host: 's', port })

describe('the status of a server among Sentinels', () => {
  it('the status of a server is confirmed when most Sentinels name it', async () => {
    const status = await sentinels({}, {}, { isSilent: true }).of(SELF, undefined)
    assert.deepEqual(status, { replicas: 2, isConfirmed: true, isPartial: true })
  })

  it('the status of a server is not confirmed when most Sentinels are silent', async () => {
    const status = await sentinels({}, { isSilent: true }, { isSilent: true }).of(SELF, undefined)
    assert.equal(status?.isConfirmed, false)
  })

  it('the status of a server is not confirmed by Sentinels that cannot reach it, and may replace it', async () => {
    const lost = { flags: 'master,s_down' }
    const status = await sentinels({ isSilent: true }, lost, lost).of(SELF, undefined)
    assert.deepEqual(status, { replicas: 2, isConfirmed: false, isPartial: true })
    assert.equal((await sentinels({}, lost, {}).of(SELF, undefined))?.isConfirmed, true)
    assert.equal((await sentinels({}, { flags: 'master,disconnected' }, lost).of(SELF, undefined))?.isConfirmed, false)
  })

  it('the status of a server is unknown when all Sentinels are silent', async () => {
    assert.equal(await sentinels({ isSilent: true }).of(SELF, undefined), undefined)
  })

  it('the status of a server is that of the Sentinel that saw the last failover', async () => {
    const replaced = { runId: 'r2', address: 'm:2', epoch: 4 }
    const status = await sentinels({}, {}, replaced).of(SELF, 'm:1')
    assert.equal(status?.refusal, 'the Sentinels name m:2 as the master')
    const stale = { runId: 'r0', address: 'm:0', epoch: 2 }
    assert.equal((await sentinels({}, {}, stale).of(SELF, undefined))?.refusal, undefined)
  })

  it('the status of a server is lost once a Sentinel began a failover, or names its successor', async () => {
    const begun = { flags: 'master,s_down,o_down,failover_in_progress' }
    assert.match((await sentinels({}, begun, {}).of(SELF, undefined))?.refusal ?? '', /about to replace/)
    const promoted = { named: 'm:2' }
    const status = await sentinels({}, {}, promoted).of(SELF, undefined)
    assert.deepEqual([status?.refusal, status?.isReplaced], ['the Sentinels name m:2 as the master', true])
  })

  it('the status of a server is known by its address when it was started again', async () => {
    const before = { runId: 'r0' }
    assert.equal((await sentinels(before).of(SELF, 'm:1'))?.refusal, undefined)
    assert.match((await sentinels(before).of(SELF, 'm:9'))?.refusal ?? '', /name m:1/)
  })

  it('the status of a server comes with the Sentinels that describe the successor already', async () => {
    const known = sentinels({ named: 'm:2' }, { runId: '', address: 'm:2' }, {})
    assert.deepEqual(await known.responding(), [0, 1, 2].map(sentinelAt))
    await known.of(SELF, 'm:1')
    assert.deepEqual(await known.responding(), [1].map(sentinelAt))
    const early = sentinels({ named: 'm:2' }, {})
    await early.of(SELF, 'm:1')
    await assert.rejects(early.responding(), /not over yet/)
  })

  it('the status of a server comes with the Sentinels that reply, the best informed first', async () => {
    const known = sentinels({ isSilent: true }, {}, { epoch: 4 })
    assert.deepEqual(await known.responding(), [2, 1].map(sentinelAt))
    assert.deepEqual(await sentinels({ isSilent: true }).responding(), [])
  })

  it('the status of a server is known by its run, whatever name or address Sentinels give it', async () => {
    const named = { address: 'redis-1.example:6379', named: 'redis-1.example:6379' }
    assert.equal((await sentinels(named).of(SELF, '10.0.0.1:6379'))?.refusal, undefined)
    const unknown = await sentinels({ ...named, runId: '' }).of(SELF, '10.0.0.1:6379')
    assert.match(unknown?.refusal ?? '', /do not know yet/)
    assert.equal(unknown?.isReplaced, undefined)
    assert.equal((await sentinels({ ...named, runId: 'r2' }).of(SELF, '10.0.0.1:6379'))?.isReplaced, true)
    const fake: FakeSentinel = { ...named }
    const known = sentinels(fake)
    await known.of(SELF, '10.0.0.1:6379')
    Object.assign(fake, { address: 'redis-2.example:6379', named: 'redis-2.example:6379', runId: '' })
    assert.equal((await known.of(SELF, '10.0.0.1:6379'))?.isReplaced, true)
  })

  it('the status of a server counts the replicas that are up', async () => {
    const status = await sentinels({ replicas: ['slave', 's_down,slave', 'slave,disconnected'] }).of(SELF, 'm:1')
    assert.equal(status?.replicas, 1)
  })
})

describe('NodeRedisSentinelPort', () => {
  it('NodeRedisSentinelPort knows the new master by its address while Sentinels do not know its run', async () => {
    const queried = Object.assign(new EventEmitter(), {
      isOpen: true,
      connect: async () => {},
      destroy: () => {},
      sendCommand: async ([, what]: string[]) => reply({ runId: '', address: 'm:2' }, what),
    })
    const client = Object.assign(new EventEmitter(), {
      getSentinelNode: () => ({ host: 's', port: 0 }),
      getMasterNode: () => ({ host: 'm', port: 2 }),
      _execute: async (_: boolean, use: (master: unknown) => unknown) => await use({ duplicate: () => queried }),
      async sendCommand(_: boolean, [name, what]: string[]): Promise<unknown> {
        if (name === 'WAIT') return 1
        return what === 'server' ? 'run_id:r2\r\n' : 'role:master\r\nconnected_slaves:1\r\n'
      },
    })
    const port = new NodeRedisSentinelPort(client as unknown as NodeRedisSentinelLike, async () => {})
    assert.deepEqual(await port.acknowledge('k', 10), { replicas: 1, acknowledged: 1 })
  })
})

describe('Replication.confirm', () => {
  it('Replication.confirm refuses a grant of a server whose slots another owns, whatever it says', async () => {
    for (const reply of [
      { replicas: 0, acknowledged: 0 },
      { replicas: 1, acknowledged: 1 },
    ]) {
      let owner = 'm:1'
      const port = { serverOf: () => owner, acknowledge: async () => reply } as unknown as RedisPort
      const clock = new SystemClock()
      const replication = new Replication(clock, new Scripts(port, clock, 1_000), 1_000, assert.fail)
      const route = replication.routeTo('a')
      await replication.confirm({ key: 'a', name: 'a' }, route)
      owner = 'm:2'
      await assert.rejects(replication.confirm({ key: 'a', name: 'a' }, route), {
        code: 'LOCK_NOT_REPLICATED',
        message: /another server/,
      })
    }
  })
})
