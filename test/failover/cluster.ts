import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'
import { ClusterBus } from './bus.js'
import { addUsers, cutOff, KEEP_DATA, logInAnew, reconnect, takesWrites } from './peers.js'
import { monotonicMs } from './record.js'
import { AFTERMATH_MS, announcing, CUT_MS, type Fault, FROZEN_MS, SOON_MS, THAW_MS, type Topology } from './topology.js'
import { type Place, WAYS } from './ways.js'

/** The slot of all locks. */
const STORM = '{storm}'

/** The nodes announce a name of this machine. */
const NAMED = ['--cluster-announce-hostname', 'localhost', '--cluster-preferred-endpoint-type', 'hostname']

/** Three masters with a replica each. */
export class ClusterTopology implements Topology {
  readonly name = 'cluster'
  readonly place: Place
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
    this.place = { sentinels: [], masterName: '', nodes }
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
  return [
    {
      id: 'kill',
      title: 'a master is killed and comes back',
      limitMs: SOON_MS,
      async strike({ linger, restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        linger()
        // No replica has its last grants.
        await cutOff(master)
        await sleep(CUT_MS)
        await cluster.kill(master)
        const served = restored(await successorOf(cluster, key, master))
        await sleep(THAW_MS)
        await master.restart()
        await sleep(AFTERMATH_MS)
        await served
      },
    },
    {
      id: 'down',
      title: 'a master is killed and stays down until all are served',
      limitMs: SOON_MS,
      async strike({ restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        await cluster.kill(master)
        await restored(await successorOf(cluster, key, master))
      },
    },
    {
      id: 'freeze',
      title: 'a master freezes, is replaced, and continues',
      limitMs: FROZEN_MS,
      async strike({ restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        await cluster.freeze(master)
        const served = restored(await successorOf(cluster, key, master))
        await sleep(THAW_MS)
        master.thaw()
        await sleep(AFTERMATH_MS)
        await served
      },
    },
    {
      id: 'blink',
      title: 'the same; connections break and clients connect during the freeze',
      limitMs: FROZEN_MS,
      async strike({ restored, blink }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        await cluster.freeze(master)
        blink([master.port])
        const served = restored(await successorOf(cluster, key, master))
        await sleep(THAW_MS)
        master.thaw()
        await sleep(AFTERMATH_MS)
        await served
      },
    },
    {
      id: 'frozen',
      title: 'a master freezes and stays frozen until all are served',
      limitMs: FROZEN_MS,
      async strike({ restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        await cluster.freeze(master)
        await restored(await successorOf(cluster, key, master))
        master.thaw()
        await sleep(AFTERMATH_MS)
      },
    },
    {
      id: 'partition',
      title: 'replicas and other masters lose a master, clients do not; others connect meanwhile',
      limitMs: SOON_MS,
      async strike({ restored, blink }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        bus.isolate(master)
        await cutOff(master)
        blink([])
        const served = restored(await successorOf(cluster, key, master))
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
      async strike({ restored }) {
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
      async strike({ restored }) {
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
      async strike({ restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        const ordered = cluster.failover(key)
        await restored(await successorOf(cluster, key, master))
        await ordered
      },
    },
    {
      id: 'takeover',
      title: 'CLUSTER FAILOVER TAKEOVER',
      limitMs: SOON_MS,
      async strike({ restored }) {
        const key = keyOf()
        const master = await cluster.nodeOf(key)
        const ordered = cluster.failover(key, { mode: 'TAKEOVER' })
        await restored(await successorOf(cluster, key, master))
        await ordered
      },
    },
    {
      id: 'slots',
      title: 'the slot moves from master to master, and back',
      limitMs: SOON_MS,
      async strike({ restored }) {
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
