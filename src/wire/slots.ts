// The slots of a cluster.
import { Buffer } from 'node:buffer'

/** The number of slots of a Redis Cluster. */
export const SLOT_COUNT = 16_384

/** CRC-16/XMODEM, by byte. */
const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

/**
 * The part of a key or sharded channel that determines its slot: the text between the first `{` and the next `}`, if there
 * is any; otherwise all of it.
 * @see https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function tagOf(key: string): string {
  const open = key.indexOf('{')
  const close = open === -1 ? -1 : key.indexOf('}', open + 1)
  return close > open + 1 ? key.slice(open + 1, close) : key
}

/** The slot of a key or a sharded channel. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(tagOf(key))) crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ byte] as number)
  return crc % SLOT_COUNT
}

const keysBySlot = new Map<number, string>()

/** A key in this slot, for a Redis client that accepts a slot only as a key. */
export function keyIn(slot: number): string {
  const known = keysBySlot.get(slot)
  if (known !== undefined) return known
  let number = 0
  while (slotOf(String(number)) !== slot) number++ // of 16 thousand one, in the mean
  keysBySlot.set(slot, String(number))
  return String(number)
}
