/** The wait-for graph as nodes and edges: owners wait for locks, locks are held by owners. */
import type { DeadlockRow, HolderRow, WaiterRow } from '../src/dashboard/api.js'
import type { HolderInfo, HolderStatus } from '../src/fleet/lock-info.js'
import { shownName, whoIs } from './format.js'
import type { Row } from './row.js'

/** More than this nobody can read. */
const MAX_LOCKS = 30
const MAX_OWNERS_PER_LOCK = 6
const MAX_TITLE = 30

export interface Node {
  readonly id: string
  readonly title: string
  /** undefined: a lock */
  readonly status?: HolderStatus
  /** The id of a lock, to open its details. */
  readonly lockId?: string
  isDeadlocked: boolean
}

export interface Edge {
  readonly from: string
  readonly to: string
  readonly kind: 'waits' | 'held'
  isDeadlocked: boolean
}

export interface Graph {
  readonly nodes: ReadonlyMap<string, Node>
  readonly edges: ReadonlyMap<string, Edge>
  /** How many contended locks were left out. */
  readonly more: number
}

export function graphOf(rows: Iterable<Row>, cycles: readonly DeadlockRow[]): Graph {
  const graph = new Builder()
  for (const cycle of cycles) graph.addCycle(cycle)
  const contended = [...rows].filter(({ lock }) => lock.waiters.length > 0)
  contended.sort((a, b) => b.lock.waiters.length - a.lock.waiters.length)
  for (const { lock } of contended.slice(0, MAX_LOCKS)) {
    const node = graph.addLock(lock.name, lock.id)
    for (const holder of lock.holders.slice(0, MAX_OWNERS_PER_LOCK)) graph.addHold(node, holder)
    for (const [index, waiter] of lock.waiters.slice(0, MAX_OWNERS_PER_LOCK).entries())
      graph.addWait(node, waiter, index)
  }
  return { nodes: graph.nodes, edges: graph.edges, more: Math.max(0, contended.length - MAX_LOCKS) }
}

class Builder {
  readonly nodes = new Map<string, Node>()
  readonly edges = new Map<string, Edge>()

  addLock(name: string, lockId: string): string {
    const id = `lock ${name}`
    if (!this.nodes.has(id)) this.nodes.set(id, { id, title: short(shownName(name)), lockId, isDeadlocked: false })
    return id
  }

  addHold(lock: string, holder: HolderRow | HolderInfo): void {
    this.#addEdge(lock, this.#addOwner(holder.holder, holder), 'held')
  }

  /** @param index tells waiters of one lock apart */
  addWait(lock: string, waiter: WaiterRow, index: number): void {
    const owner = waiter.holder ?? waiter.chain[0]?.holder
    const node = owner === undefined ? this.#addStranger(`${lock} ${index}`, waiter) : this.#addOwner(owner, waiter)
    this.#addEdge(node, lock, 'waits')
  }

  addCycle({ locks, owners }: DeadlockRow): void {
    const ids = locks.map(({ name, id }) => this.addLock(name, id))
    for (const [index, owner] of owners.entries()) {
      const held = ids[index]
      const wanted = ids[(index + 1) % ids.length]
      if (held === undefined || wanted === undefined) continue
      const node = this.#addOwner(owner.holder, owner)
      this.#addEdge(held, node, 'held', true)
      this.#addEdge(node, wanted, 'waits', true)
    }
  }

  /** One that waits, holds nothing, and does not say as whom it will hold the lock. */
  #addStranger(key: string, { client, status }: WaiterRow): string {
    const id = `waiter ${key}`
    this.nodes.set(id, { id, title: short(whoIs(client, undefined)), status, isDeadlocked: false })
    return id
  }

  #addOwner(holder: string, { client, status }: Pick<HolderInfo, 'client' | 'status'>): string {
    const id = `owner ${holder.replace(/:write$/, '')}`
    const owner = holder.slice(holder.indexOf(':') + 1)
    const title = client ? `${whoIs(client, holder)} :${owner}` : whoIs(client, holder)
    if (!this.nodes.has(id)) this.nodes.set(id, { id, title: short(title), status, isDeadlocked: false })
    return id
  }

  #addEdge(from: string, to: string, kind: Edge['kind'], isDeadlocked = false): void {
    const id = `${from}\n${to}\n${kind}`
    const known = this.edges.get(id)
    if (known) known.isDeadlocked ||= isDeadlocked
    else this.edges.set(id, { from, to, kind, isDeadlocked })
    if (!isDeadlocked) return
    for (const end of [from, to]) {
      const node = this.nodes.get(end)
      if (node) node.isDeadlocked = true
    }
  }
}

function short(title: string): string {
  return title.length > MAX_TITLE ? `${title.slice(0, MAX_TITLE - 1)}…` : title
}
