import { type SentinelGroup, startSentinels } from '../../support/servers/redis-sentinel.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import { Endpoint } from './endpoint.js'
import { faultsOfMaster, type Target } from './master-faults.js'
import { addUsers, cutOff, KEEP_DATA, logInAnew, reconnect, takesWrites } from './peers.js'
import { monotonicMs } from './record.js'
import { AFTERMATH_MS, type Announced, announcing, type Fault, SOON_MS, type Topology } from './topology.js'
import { type Addresses, PEER, WAYS } from './ways.js'

/** How long the Sentinels need to learn the offsets of the replicas, ms. */
const INFO_MS = 1_200

/** A master with two replicas, three Sentinels, and an address that follows the master. */
export class SentinelTopology implements Topology {
  readonly name = 'sentinel'
  readonly addresses: Addresses
  readonly faults: readonly Fault[]
  readonly #group: SentinelGroup
  /** The one that follows the master, and the ways through NAT. */
  readonly #endpoints: readonly Endpoint[]

  static async start(announced?: Announced): Promise<SentinelTopology> {
    const hostName = announced === 'names' && { hostName: 'localhost' }
    // Whether a master without replicas may be trusted, only the Sentinels know, and what they call it.
    const group = await startSentinels({ args: KEEP_DATA, replicas: announced ? 1 : 2, ...hostName })
    for (const server of group.servers) await addUsers(server, Object.keys(WAYS.sentinel))
    for (const { admin } of group.sentinels) await admin.call('SENTINEL', 'SET', group.masterName, 'auth-user', PEER)
    for (const server of group.servers) await logInAnew(server)
    await group.settled()
    const endpoint = await Endpoint.start((await group.master()).port)
    endpoint.follow(async () => (await group.master()).port)
    const doors = announced === 'nat' ? group.servers.map(({ port }) => Endpoint.start(port)) : []
    return new SentinelTopology(group, endpoint, await Promise.all(doors), announced)
  }

  private constructor(group: SentinelGroup, endpoint: Endpoint, doors: readonly Endpoint[], announced?: Announced) {
    this.#group = group
    this.#endpoints = [endpoint, ...doors]
    const natMap = Object.fromEntries(
      doors.map((door, at) => [`127.0.0.1:${group.servers[at]?.port}`, addressOf(door)]),
    )
    this.addresses = {
      sentinels: group.sentinels.map(addressOf),
      masterName: group.masterName,
      nodes: [],
      endpoint: addressOf(endpoint),
      ...(doors.length > 0 && { natMap }),
    }
    const faults = faultsOf(group, endpoint)
    this.faults = announced ? announcing(announced, faults) : faults
  }

  get servers(): readonly RedisServer[] {
    return this.#group.servers
  }

  get sentinels(): readonly RedisServer[] {
    return this.#group.sentinels
  }

  async heal(): Promise<void> {
    for (const server of this.#group.servers) if (server.isUp) await reconnect(server)
    await this.#group.heal()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const endpoint of this.#endpoints) await endpoint[Symbol.asyncDispose]()
    await this.#group.stop()
  }
}

function faultsOf(group: SentinelGroup, endpoint: Endpoint): Fault[] {
  const aim = async (): Promise<Target> => {
    const master = await group.master()
    return {
      master,
      kill: () => group.killMaster(),
      freeze: () => group.freezeMaster(),
      successor: () => successorOf(group, master),
    }
  }
  return [
    ...faultsOfMaster(aim, 'the master', [endpoint.port]),
    {
      id: 'partition',
      title: 'replicas and Sentinels lose the master, clients do not',
      limitMs: SOON_MS,
      async inject({ restored }) {
        const master = await group.master()
        await cutOff(master)
        const served = restored(await successorOf(group, master))
        await sleep(AFTERMATH_MS)
        await reconnect(master)
        await served
        await group.settled()
      },
    },
    {
      id: 'rolling-restart',
      title: 'all servers and Sentinels restart, one after the other',
      limitMs: SOON_MS,
      async inject({ restored }) {
        for (const replica of await group.replicas()) {
          await group.restart(replica)
          // Sentinels choose the successor by the last reports of the replicas, one per second.
          await sleep(INFO_MS)
        }
        const master = await group.killMaster()
        await successorOf(group, master)
        await group.restart(master)
        for (const sentinel of group.sentinels) await group.restart(sentinel)
        await restored(monotonicMs())
      },
    },
    {
      id: 'sentinels',
      title: 'all Sentinels restart, then the master is killed',
      limitMs: SOON_MS,
      async inject({ restored }) {
        await Promise.all(group.sentinels.map((sentinel) => sentinel.kill()))
        await sleep(300)
        await group.heal()
        const master = await group.killMaster()
        await restored(await successorOf(group, master))
      },
    },
    {
      id: 'silent-sentinel',
      title: 'the first Sentinel of the list freezes, then the master is killed',
      limitMs: SOON_MS,
      async inject({ restored }) {
        group.sentinels[0]?.freeze()
        const master = await group.killMaster()
        await restored(await successorOf(group, master))
      },
    },
    {
      id: 'restart',
      title: 'all servers and Sentinels die at once, and start again',
      limitMs: SOON_MS,
      async inject({ restored }) {
        const all = [...group.servers, ...group.sentinels]
        await Promise.all(all.map((server) => server.kill()))
        await sleep(500)
        await Promise.all(all.map((server) => server.restart()))
        await restored(await writableAt(group))
      },
    },
    {
      id: 'order',
      title: 'SENTINEL FAILOVER',
      limitMs: SOON_MS,
      exception: 'the old master learns of it last',
      note: 'the replica that acknowledged a grant need not be the one promoted: [not covered](guarantees.md#each-deployment)',
      async inject({ restored }) {
        const master = await group.master()
        const ordered = group.failover()
        await restored(await successorOf(group, master))
        await ordered
      },
    },
  ]
}

/** The first moment at which a server that a Sentinel names instead of `old` accepts a write. */
async function successorOf(group: SentinelGroup, old: RedisServer): Promise<number> {
  return await waitUntil(
    async () => {
      const up = group.sentinels.filter(({ isUp }) => isUp)
      const named = await Promise.all(
        up.map(({ admin }) => admin.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', group.masterName)),
      )
      const ports = named.map((address) => Number((address as string[])[1]))
      const next = group.servers.find(({ port, isUp }) => isUp && port !== old.port && ports.includes(port))
      return next !== undefined && (await takesWrites(next))
    },
    { timeoutMs: 20_000, message: `the Sentinels should replace ${old.port}` },
  )
}

function addressOf({ host, port }: { readonly host: string; readonly port: number }) {
  return { host, port }
}

async function writableAt(group: SentinelGroup): Promise<number> {
  return await waitUntil(async () => takesWrites(await group.master()), { timeoutMs: 20_000, message: 'a master' })
}
