import { slotOf } from '../wire/slots.js'
import type { Standing } from './replicas.js'

/** Sends one command to one server of a cluster. */
export type Ask = (...command: [string, ...string[]]) => Promise<unknown>

/** So many other masters are asked: one that is well suffices, as they tell each other at once. */
const MOST_ASKED = 2

/**
 * Whether a master of a cluster still is one, as other masters see it.
 * @param server  the server that it is about
 * @param others  the other masters, given the addresses of all
 * @param key  one whose slot the server has
 * @returns undefined if no other master replied, although there are some
 */
export async function standingInCluster(
  server: Ask,
  others: (masters: readonly Address[]) => readonly Ask[],
  key: string,
): Promise<Standing | undefined> {
  const slot = slotOf(key)
  const shards = (await server('CLUSTER', 'SLOTS')) as Shards
  const own = shardOf(slot, shards)
  const known = others(shards.map(([, , master]) => ({ host: String(master[0]), port: Number(master[1]) })))
  const asked = [...known].sort(() => Math.random() - 0.5).slice(0, MOST_ASKED)
  const answers = asked.map(async (one) => shardOf(slot, (await one('CLUSTER', 'SLOTS')) as Shards))
  const other = asked.length === 0 ? own : await Promise.any(answers).catch(() => undefined)
  if (!other) return undefined
  return {
    refusal: other.master === own.master ? undefined : 'the cluster has another master for its slots',
    replicas: Math.max(own.replicas, other.replicas),
    isConfirmed: true,
  }
}

interface Address {
  readonly host: string
  readonly port: number
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
  if (!shard) throw new Error(`nobody has slot ${slot}`)
  const [, , master, ...replicas] = shard
  return { master: String(master[2]), replicas: replicas.length }
}
