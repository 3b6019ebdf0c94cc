import type { RedisServer } from './redis-server.js'

/** One node, as in the reply of CLUSTER NODES. */
export interface NodeLine {
  readonly id: string
  /** Empty for a master. */
  readonly masterId: string
  readonly epoch: number
  /** Known, and not suspected to have failed. */
  readonly isKnown: boolean
  readonly isLinked: boolean
  readonly slots: readonly (readonly [first: number, last: number])[]
}

export async function linesOf({ admin }: RedisServer): Promise<NodeLine[]> {
  const text = String(await admin.call('CLUSTER', 'NODES')).trim()
  return text.split('\n').map((line) => {
    const [id = '', , flags = '', masterId = '', , , epoch, link, ...slots] = line.split(' ')
    return {
      id,
      masterId: masterId === '-' ? '' : masterId,
      epoch: Number(epoch),
      isKnown: !/handshake|noaddr|fail/.test(flags.replace('nofailover', '')),
      isLinked: link === 'connected' || flags.includes('myself'),
      slots: slots.filter((slot) => /^\d/.test(slot)).map(rangeOf), // one being moved is in brackets
    }
  })
}

function rangeOf(text: string): [number, number] {
  const [first = '', last = first] = text.split('-')
  return [Number(first), Number(last)]
}

export function hasSlot({ slots }: NodeLine, slot: number): boolean {
  return slots.some(([first, last]) => first <= slot && slot <= last)
}

/** The steps of a slot's way, after each of which a test may act. `key moved` comes once for each key. */
export type SlotStep = 'importing' | 'migrating' | 'key moved' | 'keys moved' | 'moved'

export interface SlotMove {
  readonly slot: number
  readonly from: RedisServer
  readonly to: RedisServer
  /** In the order they went. */
  readonly keys: readonly string[]
}

export interface SlotMoveOptions {
  /** The master that gets the slot; default another one than the owner. */
  readonly to?: RedisServer
  /** A pause after each step, ms. */
  readonly pauseMs?: number
  /** Called after each step and waited for. If it throws, the slot stays half moved. */
  readonly onStep?: (step: SlotStep, move: SlotMove) => unknown
}
