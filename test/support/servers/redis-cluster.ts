import { sleep, waitUntil } from '../wait-until.js'
import { hasSlot, linesOf, type NodeLine, type SlotMove, type SlotMoveOptions, type SlotStep } from './cluster-nodes.js'
import { IS_BEFORE_7 } from './engine.js'
import { type RedisServer, startRedis } from './redis-server.js'

const SLOTS = 16_384
const START_MS = 20_000
const SETTLE_MS = 20_000
/** A replica that lost its election tries again by itself after 4 s; later than that the command was forgotten. */
const FAILOVER_AGAIN_MS = 6_000
const BUS_PORT = '--cluster-port'
/** Before Redis 7 that port cannot be chosen. */
const FIXED_BUS_OFFSET = 10_000
/** A dead master is replaced within 1 to 3 s. */
const ARGS = [
  ...['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--cluster-allow-replica-migration', 'no'],
  ...['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'],
]

export interface ClusterOptions {
  /** Default 3, the fewest that can vote one of them out. */
  readonly masters?: number
  /** Default 1. */
  readonly replicasEach?: number
  /** Further arguments of every node, such as `['--cluster-require-full-coverage', 'no']`. */
  readonly args?: readonly string[]
}

/**
 * A Redis Cluster of our own on free ports of 127.0.0.1, without persistence; it ends with this process. Resolved when
 * every node says that the state is ok and all replicas are in step.
 */
export async function startCluster({
  masters = 3,
  replicasEach = 1,
  args = [],
}: ClusterOptions = {}): Promise<Cluster> {
  const started = await Promise.allSettled(
    Array.from({ length: masters * (1 + replicasEach) }, () =>
      startRedis({ ports: IS_BEFORE_7 ? [] : [BUS_PORT], args: [...ARGS, ...args] }),
    ),
  )
  const nodes = started.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  try {
    for (const outcome of started) if (outcome.status === 'rejected') throw outcome.reason
    return await form(nodes, masters)
  } catch (error) {
    await Promise.all(nodes.map((node) => node.stop()))
    throw error
  }
}

async function form(nodes: readonly RedisServer[], masterCount: number): Promise<Cluster> {
  const ids = await Promise.all(nodes.map(async (node) => String(await node.admin.call('CLUSTER', 'MYID'))))
  const cluster = new Cluster(new Map(nodes.map((node, at) => [ids[at] as string, node])))
  const masters = nodes.slice(0, masterCount)
  const [first, ...others] = nodes as [RedisServer, ...RedisServer[]]
  for (const [at, { admin }] of masters.entries()) {
    const [from, to] = [at, at + 1].map((part) => Math.floor((part * SLOTS) / masterCount)) as [number, number]
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', at + 1)
    await admin.call('CLUSTER', 'ADDSLOTS', ...Array.from({ length: to - from }, (_, at) => from + at)) // 6.2 knows no ranges
  }
  for (const { host, port, ports } of others) {
    await first.admin.call('CLUSTER', 'MEET', host, port, ports[BUS_PORT] ?? port + FIXED_BUS_OFFSET)
  }
  for (const [at, node] of nodes.entries()) {
    await waitUntil(
      async () => (await linesOf(node)).every(({ isKnown }, _, { length }) => isKnown && length === nodes.length),
      {
        timeoutMs: START_MS,
        message: `node ${node.port} should know all others`,
      },
    )
    if (at >= masterCount) await node.admin.call('CLUSTER', 'REPLICATE', ids[at % masterCount] as string)
  }
  await cluster.settled()
  return cluster
}

export interface Failover {
  /** The master before, and the replica that took its place. */
  readonly from: RedisServer
  readonly to: RedisServer
  /** From the command or the fault until every running node knew the new master, ms. */
  readonly ms: number
}

/**
 * The nodes of one cluster. A node is frozen and killed here rather than by its own methods if it is a master and
 * `waitForFailover` is to be called.
 */
export class Cluster implements AsyncDisposable {
  readonly #nodes: ReadonlyMap<string, RedisServer>
  /** When a node went down, and a slot that it had. */
  readonly #downs = new Map<RedisServer, { at: number; slot: number | undefined }>()

  constructor(nodes: ReadonlyMap<string, RedisServer>) {
    this.#nodes = nodes
  }

  /** All, masters and replicas, running or not. Each has host, port, and an admin connection that is not redirected. */
  get nodes(): readonly RedisServer[] {
    return [...this.#nodes.values()]
  }

  /** The admin connections of all nodes. */
  get admins(): readonly RedisServer['admin'][] {
    return this.nodes.map((node) => node.admin)
  }

  /** Addresses of all nodes, as the drivers want them. */
  get urls(): readonly string[] {
    return this.nodes.map((node) => node.url)
  }

  get #up(): RedisServer[] {
    return this.nodes.filter((node) => node.isUp)
  }

  async slotOf(key: string): Promise<number> {
    return Number(await this.#anyUp().admin.call('CLUSTER', 'KEYSLOT', key))
  }

  /** The master that owns the slot of `key` now; a dead one until another has taken its place. */
  async nodeOf(key: string): Promise<RedisServer> {
    return this.#ownerOf(await this.slotOf(key))
  }

  /** Masters that own slots, running or not. */
  async masters(): Promise<RedisServer[]> {
    const lines = (await this.#newestLines()).filter(({ slots }) => slots.length > 0)
    return lines.map(({ id }) => this.#node(id))
  }

  /** Running replicas of `master`. */
  async replicasOf(master: RedisServer): Promise<RedisServer[]> {
    const lines = (await this.#newestLines()).filter(({ masterId }) => this.#nodes.get(masterId) === master)
    return lines.map(({ id }) => this.#node(id)).filter((node) => node.isUp)
  }

  /** Keys of all running masters, sorted. */
  async keys(): Promise<string[]> {
    return this.#collect(await this.#runningMasters(), ({ admin }) => admin.keys('*'))
  }

  /** Channels with a plain subscription at any running node, sorted. */
  async channels(): Promise<string[]> {
    return this.#collect(this.#up, ({ admin }) => admin.pubsub('CHANNELS'))
  }

  /** Channels with a sharded subscription at any running node, sorted. */
  async shardChannels(): Promise<string[]> {
    return IS_BEFORE_7 ? [] : this.#collect(this.#up, ({ admin }) => admin.pubsub('SHARDCHANNELS'))
  }

  /** Connections of clients to any running node, as CLIENT LIST shows them. */
  async connections(): Promise<string[]> {
    return this.#collect(this.#up, (node) => node.connections())
  }

  /** Moves the slot of `key` with its keys to another master, step by step. Resolved when all nodes know. */
  async moveSlot(key: string, { to, pauseMs = 0, onStep }: SlotMoveOptions = {}): Promise<SlotMove> {
    const slot = await this.slotOf(key)
    const from = await this.#ownerOf(slot)
    const target = to ?? (await this.#runningMasters()).find((master) => master !== from)
    if (!target || target === from) throw new Error(`slot ${slot} has nowhere to go from ${from.port}`)
    const keys: string[] = []
    const move = { slot, from, to: target, keys }
    const after = async (step: SlotStep) => {
      await onStep?.(step, move)
      if (pauseMs > 0) await sleep(pauseMs)
    }
    const setSlot = ({ admin }: RedisServer, ...words: string[]) => admin.call('CLUSTER', 'SETSLOT', slot, ...words)

    await setSlot(target, 'IMPORTING', this.#idOf(from))
    await after('importing')
    await setSlot(from, 'MIGRATING', this.#idOf(target))
    await after('migrating')
    // From now on no key is created here, so this ends.
    while (true) {
      const [next] = (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 1)) as string[]
      if (next === undefined) break
      const reply = await from.admin.call('MIGRATE', target.host, target.port, '', 0, 5_000, 'KEYS', next)
      if (reply === 'NOKEY') continue // deleted or expired meanwhile
      keys.push(next)
      await after('key moved')
    }
    await after('keys moved')
    // The target first: it takes a newer epoch, which decides for all that learn of both.
    await setSlot(target, 'NODE', this.#idOf(target))
    await setSlot(from, 'NODE', this.#idOf(target))
    await after('moved')
    await this.settled()
    return move
  }

  /**
   * Makes a replica of the master that owns `key` its successor. Resolved when it is so everywhere and the old master,
   * if it runs, is a replica in step: the next failover may follow at once.
   * @param options.mode none: the master agrees and nothing is lost; FORCE: without the consent of the master; TAKEOVER: without
   *                     any consent
   */
  async failover(key: string, { mode }: { mode?: 'FORCE' | 'TAKEOVER' } = {}): Promise<Failover> {
    const slot = await this.slotOf(key)
    const from = await this.#ownerOf(slot)
    const [to] = await this.replicasOf(from)
    if (!to) throw new Error(`master ${from.port} has no running replica`)
    const startedAt = performance.now()
    let askedAt = Number.NEGATIVE_INFINITY
    await waitUntil(
      async () => {
        if (await this.#isOwnedBy(to, slot)) return true
        if (performance.now() - askedAt > FAILOVER_AGAIN_MS) {
          askedAt = performance.now()
          await to.admin.call('CLUSTER', 'FAILOVER', ...(mode ? [mode] : []))
        }
        return false
      },
      { timeoutMs: SETTLE_MS, message: `${to.port} should take the place of ${from.port}` },
    )
    const ms = performance.now() - startedAt
    await this.settled()
    return { from, to, ms }
  }

  /** Ends a node with SIGKILL; resolved when it is gone. `waitForFailover` resolves when another has its slots. */
  async kill(node: RedisServer): Promise<void> {
    await this.#noteDown(node)
    await node.kill()
  }

  /** Stops a node where it stands (SIGSTOP). The others take it for dead after the node timeout. */
  async freeze(node: RedisServer): Promise<void> {
    await this.#noteDown(node)
    node.freeze()
  }

  /** Lets a frozen node continue. It may consider itself a master until the others contact it: `settled` waits for it. */
  thaw(node: RedisServer): void {
    node.thaw()
  }

  /** Resolved when a replica has taken the place of a master that was killed or frozen, and all running nodes know. */
  async waitForFailover(node: RedisServer): Promise<Failover> {
    const down = this.#downs.get(node)
    if (down?.slot === undefined) throw new Error(`node ${node.port} was not killed or frozen as a master`)
    const { at, slot } = down
    const to = await waitUntil(
      async () => {
        const owner = await this.#ownerOf(slot)
        return owner !== node && (await this.#isOwnedBy(owner, slot)) && (await this.#stateIsOk()) && owner
      },
      { timeoutMs: SETTLE_MS, message: `a replica should take the place of ${node.port}` },
    )
    const ms = performance.now() - at
    await this.settled()
    return { from: node, to, ms }
  }

  /** Starts a node again, empty but with the cluster's memory. Resolved when it has found its place. */
  async restart(node: RedisServer): Promise<void> {
    await node.restart()
    await this.settled()
  }

  /** Thaws what is frozen and starts what was killed. Roles stay as they are now. */
  async heal(): Promise<void> {
    for (const node of this.nodes) if (!node.isUp) node.thaw()
    await Promise.all(this.nodes.filter((node) => !node.isUp).map((node) => node.restart()))
    await this.settled()
  }

  /** Deletes all keys of the running masters. */
  async flush(): Promise<void> {
    for (const { admin } of await this.#runningMasters()) await admin.flushall()
  }

  /**
   * Resolved when all running nodes see the same cluster with the state ok, their replicas are in step, and no slot
   * belongs to a node that is down.
   */
  async settled(): Promise<void> {
    let why = ''
    await waitUntil(
      async () => {
        why = await this.#whatIsUnsettled()
        return why === ''
      },
      { timeoutMs: SETTLE_MS, message: () => `the cluster should settle: ${why}` },
    )
  }

  /** Ends all nodes and their admin connections, and removes their directories. Stopping twice is harmless. */
  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #whatIsUnsettled(): Promise<string> {
    const up = this.#up
    if (!(await this.#stateIsOk())) return 'a running node says that the state is not ok'
    const views = await Promise.all(up.map(linesOf))
    const texts = views.map((lines) =>
      lines
        .map((line) => this.#spell(line))
        .sort()
        .join('\n'),
    )
    if (new Set(texts).size > 1) return `the nodes do not agree:\n${[...new Set(texts)].join('\n\n')}`
    for (const { id, masterId, slots, isKnown, isLinked } of views[0] ?? []) {
      const node = this.#node(id)
      const master = this.#nodes.get(masterId)
      if (!node.isUp && slots.length > 0) return `${node.port} is down and has slots`
      if (!node.isUp) continue
      if (!isKnown || !isLinked) return `${node.port} is not seen by all`
      if (!master && slots.length === 0) return `${node.port} has no slots and follows nobody`
      if (master?.isUp && !(await node.follows(master))) return `${node.port} is not in step with ${master.port}`
    }
    return ''
  }

  /** What all nodes must say alike of one of them. */
  #spell({ id, masterId, slots, isKnown, isLinked }: NodeLine): string {
    const node = this.#nodes.get(id)
    if (!node) return `a stranger: ${id}`
    const place = `${node.port} ${masterId ? `replica of ${this.#nodes.get(masterId)?.port}` : `master of ${slots}`}`
    return node.isUp ? `${place} ${isKnown && isLinked ? 'seen' : 'not seen'}` : place
  }

  async #stateIsOk(): Promise<boolean> {
    const states = await Promise.all(this.#up.map(({ admin }) => admin.call('CLUSTER', 'INFO')))
    return states.every((state) => String(state).includes('cluster_state:ok'))
  }

  async #isOwnedBy(owner: RedisServer, slot: number): Promise<boolean> {
    const views = await Promise.all(this.#up.map(linesOf))
    return views.every((lines) => lines.some((line) => hasSlot(line, slot) && this.#nodes.get(line.id) === owner))
  }

  async #ownerOf(slot: number): Promise<RedisServer> {
    const line = (await this.#newestLines()).find((one) => hasSlot(one, slot))
    if (!line) throw new Error(`nobody has slot ${slot}`)
    return this.#node(line.id)
  }

  /** All that the running nodes say, where they contradict each other the newer word first. */
  async #newestLines(): Promise<NodeLine[]> {
    const lines = (await Promise.all(this.#up.map(linesOf))).flat()
    const newestFirst = lines.sort((one, other) => other.epoch - one.epoch)
    const seen = new Set<string>()
    return newestFirst.filter(({ id }) => !seen.has(id) && seen.add(id))
  }

  async #runningMasters(): Promise<RedisServer[]> {
    return (await this.masters()).filter((master) => master.isUp)
  }

  async #collect(nodes: readonly RedisServer[], read: (node: RedisServer) => Promise<unknown[]>): Promise<string[]> {
    const replies = await Promise.all(nodes.map(read))
    return [...new Set(replies.flat().map(String))].sort()
  }

  async #noteDown(node: RedisServer): Promise<void> {
    const own = node.isUp ? (await linesOf(node)).find(({ id }) => this.#nodes.get(id) === node) : undefined
    this.#downs.set(node, { at: performance.now(), slot: own?.slots[0]?.[0] })
  }

  #anyUp(): RedisServer {
    const [node] = this.#up
    if (!node) throw new Error('no node of the cluster is running')
    return node
  }

  #node(id: string): RedisServer {
    const node = this.#nodes.get(id)
    if (!node) throw new Error(`the cluster has an unknown node: ${id}`)
    return node
  }

  #idOf(node: RedisServer): string {
    for (const [id, one] of this.#nodes) if (one === node) return id
    throw new Error(`${node.port} is not of this cluster`)
  }
}
