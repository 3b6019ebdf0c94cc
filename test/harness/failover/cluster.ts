import { type Cluster, startCluster } from '../../support/servers/redis-cluster.js'
import type { RedisServer } from '../../support/servers/redis-server.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import { ClusterBus } from './bus.js'
import { faultsOfMaster, type Target } from './master-faults.js'
import { addUsers, cutOff, KEEP_DATA, logInAnew, reconnect, takesWrites } from './peers.js'
import { monotonicMs } from './record.js'
import { AFTERMATH_MS, announcing, type Fault, SOON_MS, type Topology } from './topology.js'
import { type Addresses, WAYS } from './ways.js'

/** The slot of all locks. */
const STORM = '{storm}'

/** The nodes announce a name of this machine. */
const NAMED = ['--cluster-announce-hostname', 'localhost', '--cluster-preferred-endpoint-type', 'hostname']

/** Three masters with a replica each. */
export class ClusterTopology implements Topology {
  readonly name = 'cluster'
  readonly addresses: Addresses
  readonly faults: readonly Fault[]
  readonly #cluster: Cluster
  readonly #bus: ClusterBus

  /** @param keyOf a key whose master the next fault is for */
  static async start(keyOf: () => string = () => STORM, announced?: 'names'): Promise<ClusterTopology> {
    const cluster = await startCluster({ args: announced ? [...KEEP_DATA, ...NAMED] : KEEP_DATA })
    for (const node of cluster.nodes) await addUsers(node, Object.keys(WAYS.cluster))
    for (const node of cluster.nodes) await logInAnew(node)
    await cluster.settled()
    return new ClusterTopology(cluster, await ClusterBus.start(cluster), keyOf, announced)
  }

  private constructor(cluster: Cluster, bus: ClusterBus, keyOf: () => string, announced?: 'names') {
    this.#cluster = cluster
    this.#bus = bus
    const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }))
    this.addresses = { sentinels: [], masterName: '', nodes }
    const faults = faultsOf(cluster, bus, keyOf)
    this.faults = announced ? announcing(announced, faults) : faults
  }

  get servers(): readonly RedisServer[] {
    return this.#cluster.nodes
  }

  async heal(): Promise<void> {
    this.#bus.reunite()
    for (const node of this.#cluster.nodes) if (node.isUp) await reconnect(node)
    await this.#cluster.heal()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus[Symbol.asyncDispose]()
    await this.#cluster.stop()
  }
}

function faultsOf(cluster: Cluster, bus: ClusterBus, keyOf: () => string): Fault[] {
  const aim = async (): Promise<Target & { readonly key: string }> => {
    const key = keyOf()
    const master = await cluster.nodeOf(key)
    return {
      key,
      master,
      kill: () => cluster.kill(master),
      freeze: () => cluster.freeze(master),
      successor: () => successorOf(cluster, key, master),
    }
  }
  /** @param mode  undefined: by agreement of the master */
  const failoverBy =
    (mode: 'TAKEOVER' | undefined): Fault['inject'] =>
    async ({ restored }) => {
      const { key, successor } = await aim()
      const ordered = cluster.failover(key, mode && { mode })
      await restored(await successor())
      await ordered
    }
  return [
    ...faultsOfMaster(aim, 'a master'),
    {
      id: 'partition',
      title: 'replicas and other masters lose a master, clients do not; others connect meanwhile',
      limitMs: SOON_MS,
      async inject({ restored, flap }) {
        const { master, successor } = await aim()
        bus.isolate(master)
        await cutOff(master)
        flap([])
        const served = restored(await successor())
        await sleep(AFTERMATH_MS)
        await reconnect(master)
        bus.reunite()
        await served
        await cluster.settled()
      },
    },
    {
      id: 'rolling-restart',
      title: 'all nodes restart, one after the other',
      limitMs: SOON_MS,
      async inject({ restored }) {
        for (const node of cluster.nodes) {
          const isMaster = (await cluster.masters()).includes(node)
          await cluster.kill(node)
          if (isMaster) await cluster.waitForFailover(node)
          await cluster.restart(node)
        }
        await restored(monotonicMs())
      },
    },
    {
      id: 'restart',
      title: 'all nodes die at once, and start again',
      limitMs: SOON_MS,
      async inject({ restored }) {
        await Promise.all(cluster.nodes.map((node) => node.kill()))
        await sleep(500)
        await Promise.all(cluster.nodes.map((node) => node.restart()))
        await restored(await writableAt(cluster, keyOf()))
      },
    },
    {
      id: 'order',
      title: 'CLUSTER FAILOVER',
      limitMs: SOON_MS,
      inject: failoverBy(undefined),
    },
    {
      id: 'takeover',
      title: 'CLUSTER FAILOVER TAKEOVER',
      limitMs: SOON_MS,
      inject: failoverBy('TAKEOVER'),
    },
    {
      id: 'slots',
      title: 'the slot moves from master to master, and back',
      limitMs: SOON_MS,
      async inject({ restored }) {
        const key = keyOf()
        const first = await cluster.nodeOf(key)
        const others = (await cluster.masters()).filter((master) => master !== first)
        for (const to of [...others, first]) await cluster.moveSlot(key, { to, pauseMs: 20 })
        await restored(monotonicMs())
      },
    },
  ]
}

/** The first moment at which another node than `old` owns the slot and accepts a write. */
async function successorOf(cluster: Cluster, key: string, old: RedisServer): Promise<number> {
  let seen = ''
  return await waitUntil(
    async () => {
      const owner = await cluster.nodeOf(key)
      seen = `${owner.port} has the slot, of ${(await cluster.masters()).map(({ port }) => port)}`
      return owner !== old && (await takesWrites(owner, key))
    },
    { timeoutMs: 20_000, message: () => `a replica should take the place of ${old.port}; ${seen}` },
  )
}

async function writableAt(cluster: Cluster, key: string): Promise<number> {
  const isWritable = async () => takesWrites(await cluster.nodeOf(key), key)
  return await waitUntil(isWritable, { timeoutMs: 20_000, message: 'the cluster is up again' })
}
