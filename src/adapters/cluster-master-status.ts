// Whether a cluster node is still the master of a slot.
import { slotOf } from '../wire/slots.js'
import type { MasterStatus } from './replicas.js'

/** Sends one command to one server of a cluster. */
export type SendToServer = (...command: [string, ...string[]]) => Promise<unknown>

/** How many other masters are asked: one reachable master suffices, as masters inform each other at once. */
const MAX_MASTERS = 2

/**
 * Whether a master of a cluster still is one, according to other masters.
 * @param server  the server in question
 * @param others  returns the other masters, given a slot of each that the server knows
 * @param key  a key in a slot that the server owns
 * @returns undefined if there are other masters and none of them replied
 */
export async function clusterMasterStatus(
  server: SendToServer,
  others: (slots: readonly number[]) => readonly SendToServer[],
  key: string,
): Promise<MasterStatus | undefined> {
  const slot = slotOf(key)
  const shards = (await server('CLUSTER', 'SLOTS')) as Shards
  const own = shardOf(slot, shards)
  // By their ids: an address may be announced, mapped, or missing.
  const slotById = new Map(shards.map(([from, , master]) => [idOf(master), Number(from)]))
  slotById.delete(own.master)
  const asked = [...others([...slotById.values()])].sort(() => Math.random() - 0.5).slice(0, MAX_MASTERS)
  const replies = asked.map(async (one) => shardOf(slot, (await one('CLUSTER', 'SLOTS')) as Shards))
  const other = asked.length === 0 ? own : await Promise.any(replies).catch(() => undefined)
  if (!other) return undefined
  return {
    refusal: other.master === own.master ? undefined : 'the cluster has another master for its slots',
    replicas: Math.max(own.replicas, other.replicas),
    isConfirmed: true,
    isPartial: false,
  }
}

type Shards = readonly (readonly [from: number, to: number, master: unknown[], ...replicas: unknown[][]])[]

interface Shard {
  /** The id of its master. */
  readonly master: string
  /** How many replicas it has that are not known to have failed. */
  readonly replicas: number
}

function shardOf(slot: number, shards: Shards): Shard {
  const shard = shards.find(([from, to]) => Number(from) <= slot && slot <= Number(to))
  if (!shard) throw new Error(`no server has slot ${slot}`)
  const [, , master, ...replicas] = shard
  return { master: idOf(master), replicas: replicas.length }
}

/** The id of a node in a reply of CLUSTER SLOTS. */
function idOf(node: readonly unknown[]): string {
  return String(node[2])
}
