import type { Clock } from '../../../src/util/clock.js'
import type { Dice } from '../../support/dice.js'
import { Node, type Write } from './node.js'
import { type Observer, slotsReply } from './observer.js'
import { ReplicationStream } from './replication-stream.js'

/** Scripts that give an owner more time for what it has, without an acknowledgement of replicas. */
const EXTENSION = /renew|reenter|set-count|release-one|extend|update-lease/

/** How a Sentinel describes a master that most of them cannot reach; and the one that replaces it. */
const DOWN = 'master,s_down,o_down'
const FAILING_OVER = `${DOWN},failover_in_progress`

/** What a replica set has to know of the life that it is part of. */
export interface Surroundings {
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly isStormy: boolean
  diceOf(actor: string): Dice
  note(text: string): void
  pause(clock: Pick<Clock, 'after'>, ms: number): Promise<void>
}

/** How the master of a failover fails. */
type Failure = 'killed' | 'frozen' | 'isolated'

/** A master and two replicas, with three Sentinels or as many other masters of a cluster. */
export class ReplicaSet {
  readonly nodes: readonly Node[]
  /** The only one whose grants count. */
  master: Node
  readonly observers: Observer[]
  readonly isCluster: boolean
  /** Called when clients may learn that there is another master. */
  onSwitch: () => void = () => {}
  /** Called when the master is cut off from all servers, and not from clients. */
  onIsolated: () => void = () => {}
  /** Called for every lease that was extended, but not at the master that counts. */
  onLostExtension: (keys: readonly string[], holders: readonly string[]) => void = () => {}
  readonly #world: Surroundings
  readonly #dice: Dice

  constructor(world: Surroundings, epochAt: number, isCluster: boolean) {
    this.#world = world
    this.isCluster = isCluster
    this.#dice = world.diceOf('replica set')
    this.nodes = [1, 2, 3].map((index) => new Node(`n${index}`, world.clock, epochAt))
    const [master, ...replicas] = this.nodes as [Node, ...Node[]]
    this.master = master
    for (const replica of replicas) this.#follow(replica, master, 0)
    this.observers = [1, 2, 3].map(() => ({ master, epoch: 0, flags: 'master', named: master }))
    for (const node of this.nodes) {
      node.slots = () => slotsReply(node.source ? this.master : node, this.nodes)
      node.onWrite = (write) => {
        if (node !== this.master) this.#lose(write)
      }
    }
  }

  /** One or both replicas get nothing for a while. */
  lag(ms: number): void {
    const until = this.#world.clock.now() + ms
    const { streams } = this.master
    if (streams.length > 0) for (const stream of this.#dice.some(streams)) stream.lag(until)
  }

  /** The master fails, a replica takes over, and the old master comes back as if nothing had happened. */
  async failOver(how = this.#dice.pick<Failure>(['killed', 'frozen', 'isolated', 'isolated'])): Promise<void> {
    const dice = this.#dice
    const old = this.master
    this.#note(`${old.name} is ${how}`)
    if (how === 'killed') old.kill()
    else if (how === 'frozen') old.freeze()
    else {
      old.closeStreams()
      this.onIsolated()
      if (dice.chance(0.7)) this.#world.clock.after(dice.between(0, 1_000), () => old.dropStreams())
    }

    // At least 1.2 s, as no Sentinel and no cluster is faster.
    await this.#pause(500, 1_000)
    // A master that reaches no other one stops, in a cluster.
    if (how === 'isolated' && this.isCluster) old.refusal = 'CLUSTERDOWN The cluster is down'
    const [leader, ...others] = dice.pick([
      [0, 1, 2],
      [1, 2, 0],
      [2, 0, 1],
    ]) as [number, ...number[]]
    this.#describe((one, index) => ({ ...one, flags: index === leader ? FAILING_OVER : DOWN }))
    await this.#pause(700, 1_500)
    const promoted = this.#elected(old)
    this.#note(`${promoted.name} is promoted`)
    promoted.promote()
    this.master = promoted
    for (const write of old.writes.slice(promoted.writes.length)) this.#lose(write)

    await Promise.all([this.#announce(old, promoted, leader, others), this.#comeBack(old, how)])
    await this.#pause(100, 1_000)
    this.#note(`${old.name} is a replica`)
    this.#follow(old, promoted, dice.between(10, 500))
    await this.#pause(500, 1_000)
  }

  /** What each server has. */
  contents(): unknown[] {
    return this.nodes.map((node) => {
      node.source?.advance(this.#world.clock.now())
      node.keyspace.tick()
      return new Map(node.keyspace.names().map((name) => [name, node.keyspace.content(name)]))
    })
  }

  /** That with the most data. */
  #elected(old: Node): Node {
    const replicas = this.nodes.filter((node) => node !== old)
    for (const { source } of replicas) source?.advance(this.#world.clock.now())
    return replicas.reduce((best, node) => (node.writes.length > best.writes.length ? node : best))
  }

  /** One observer after the other learns of it, and the other replica follows the new master. */
  async #announce(old: Node, promoted: Node, leader: number, others: readonly number[]): Promise<void> {
    const dice = this.#dice
    const epoch = (this.observers[0] as Observer).epoch + 1
    // The new master of a cluster tells the others before it serves anyone; Sentinels ask every second.
    const isCluster = this.isCluster
    await this.#pause(0, isCluster ? 2 : 1_000)
    const changed = { epoch, named: promoted }
    this.observers[leader] = { ...changed, master: old, flags: FAILING_OVER }
    this.onSwitch()
    const switched = { ...changed, master: promoted, flags: 'master' }
    const learn = async (index: number): Promise<void> => {
      await this.#pause(0, isCluster ? 3 : 1_500)
      this.observers[index] = switched
    }
    const reattach = async (node: Node): Promise<void> => {
      await this.#pause(0, isCluster ? 3 : 500)
      this.#follow(node, promoted, dice.between(1, 100))
    }
    const rest = this.nodes.filter((node) => node !== old && node !== promoted)
    await Promise.all([...rest.map(reattach), ...[leader, ...others].map(learn)])
  }

  async #comeBack(old: Node, how: Failure): Promise<void> {
    await this.#pause(0, how === 'isolated' ? 8_000 : 3_000)
    this.#note(`${old.name} is back`)
    if (how === 'killed') old.restart()
    if (how === 'frozen') old.thaw()
    await this.#pause(0, 20)
    // It notices which replicas have left.
    if (how === 'frozen') old.dropStreams()
    // Those that have not heard of its successor see it again.
    const seenAgain = (one: Observer): Observer => (one.flags === DOWN ? { ...one, flags: 'master' } : one)
    this.#world.clock.after(this.#dice.between(0, 1_000), () => this.#describe(seenAgain))
  }

  #follow(replica: Node, master: Node, syncMs: number): void {
    const dice = this.#world.diceOf(`${master.name} to ${replica.name}`)
    const isSlow = (): boolean => this.#world.isStormy
    const stream = (syncedAt: number): ReplicationStream =>
      new ReplicationStream(master, replica, dice, isSlow, syncedAt)
    replica.follow(master, stream, syncMs)
  }

  #lose(write: Write): void {
    const holders = extendedBy(write)
    if (holders.length > 0) this.onLostExtension(write.keys, holders)
  }

  #describe(change: (one: Observer, index: number) => Observer): void {
    for (const [index, one] of this.observers.entries()) this.observers[index] = change(one, index)
  }

  #note(text: string): void {
    this.#world.note(`⚡ ${text}`)
  }

  #pause(least: number, most: number): Promise<void> {
    return this.#world.pause(this.#world.clock, this.#dice.between(least, most))
  }
}

/** Among other words, the holders whose leases a write extended without an acknowledgement. */
function extendedBy({ script, args }: Write): readonly string[] {
  // Of a writer that also reads: what extends the lock for its read hold does so for its write hold.
  const writers = args.map((word) => `${word}:write`)
  if (EXTENSION.test(script)) return [...args, ...writers]
  return script === 'read-lock/acquire' ? writers : []
}
