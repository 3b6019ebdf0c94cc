/**
 * HighwayHash-128 (J. Alakuijala, B. Cox, J. Wassenberg: "Fast keyed hash/pseudo-random function using SIMD multiply and
 * permute"), from its definition. The hash fields of Redisson's faster multi-lock are such digests.
 *
 * Lanes are unsigned 64-bit integers. Everything is little-endian except the digest.
 */
import { Buffer } from 'node:buffer'

type Lanes = [bigint, bigint, bigint, bigint]
type Key = Readonly<Lanes>

const LANES = [0, 1, 2, 3] as const
const PACKET_BYTES = 32

/** The initial `mul0` and `mul1`, by definition. */
const INIT0: Key = [0xdbe6d5d5fe4cce2fn, 0xa4093822299f31d0n, 0x13198a2e03707344n, 0x243f6a8885a308d3n]
const INIT1: Key = [0x3bd39e10cb0ef593n, 0xc0acf169b5f18a8cn, 0xbe5466cf34e90c6cn, 0x452821e638d01377n]

/** Zipper merge: byte n of two adjacent lanes comes from this byte of them, so that each is mixed with distant ones. */
const ZIPPER = [3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7]

/** Rounds after the last byte; the 64- and 256-bit variants have 4 and 10. */
const FINAL_ROUNDS = 6

/** Redisson's key (its `Hash.KEY`): part of the wire format, not a secret. */
const REDISSON_KEY: Key = [0x9e3779b97f4a7c15n, 0xf39cc0605cedc834n, 0x1082276bf3a27251n, 0xf86c6a11d0c18e95n]

/**
 * Redisson's `Hash.hash128toBase64` of a value of `StringCodec`: 22 characters.
 * @param value  well-formed: Java encodes a lone surrogate differently from Node
 */
export function fieldDigest(value: string): string {
  const [first, second] = highwayHash128(Buffer.from(value, 'utf8'), REDISSON_KEY)
  const digest = Buffer.alloc(16)
  digest.writeBigUInt64BE(first, 0)
  digest.writeBigUInt64BE(second, 8)
  return digest.toString('base64').slice(0, -'=='.length)
}

/** @returns the first and the second half of the hash, each an unsigned 64-bit integer */
export function highwayHash128(bytes: Uint8Array, key: Key): readonly [bigint, bigint] {
  const state = new State(key)
  const tail = bytes.length % PACKET_BYTES
  for (let at = 0; at < bytes.length - tail; at += PACKET_BYTES) state.update(lanesOf(bytes.subarray(at)))
  if (tail > 0) state.updateLast(bytes.subarray(-tail))
  return state.finish()
}

class State {
  readonly #mul0: Lanes = [...INIT0]
  readonly #mul1: Lanes = [...INIT1]
  readonly #v0: Lanes
  readonly #v1: Lanes

  constructor(key: Key) {
    this.#v0 = eachLane((i) => INIT0[i] ^ key[i])
    this.#v1 = eachLane((i) => INIT1[i] ^ swapHalves(key[i]))
  }

  update(packet: Key): void {
    const [v0, v1, mul0, mul1] = [this.#v0, this.#v1, this.#mul0, this.#mul1]
    for (const i of LANES) {
      v1[i] = uint64(v1[i] + mul0[i] + packet[i])
      mul0[i] ^= low(v1[i]) * high(v0[i])
      v0[i] = uint64(v0[i] + mul1[i])
      mul1[i] ^= low(v0[i]) * high(v1[i])
    }
    addZipped(v0, v1)
    addZipped(v1, v0)
  }

  /** The remaining bytes. Their number goes into the state, so that "a" and "a" plus a zero byte differ. */
  updateLast(tail: Uint8Array): void {
    const size = BigInt(tail.length)
    for (const i of LANES) {
      this.#v0[i] = uint64(this.#v0[i] + (size << 32n) + size)
      this.#v1[i] = (rotate32(high(this.#v1[i]), size) << 32n) | rotate32(low(this.#v1[i]), size)
    }
    this.update(lanesOf(paddedPacket(tail)))
  }

  finish(): readonly [bigint, bigint] {
    const [v0, v1, mul0, mul1] = [this.#v0, this.#v1, this.#mul0, this.#mul1]
    for (let round = 0; round < FINAL_ROUNDS; round++) {
      this.update([swapHalves(v0[2]), swapHalves(v0[3]), swapHalves(v0[0]), swapHalves(v0[1])])
    }
    return [uint64(v0[0] + mul0[0] + v1[2] + mul1[2]), uint64(v0[1] + mul0[1] + v1[3] + mul1[3])]
  }
}

/** Pads 1 to 31 bytes: whole words of 4 stay where they are, the rest goes to a fixed place. */
function paddedPacket(tail: Uint8Array): Uint8Array {
  const packet = new Uint8Array(PACKET_BYTES)
  const rest = tail.length % 4
  const words = tail.length - rest
  packet.set(tail.subarray(0, words))
  if (tail.length >= 16) {
    // The last four bytes, some of which may already be there.
    packet.set(tail.subarray(-4), 28)
  } else if (rest > 0) {
    // The first, middle and last of one to three bytes.
    packet.set(
      [words, words + (rest >> 1), tail.length - 1].map((at) => tail[at] as number),
      16,
    )
  }
  return packet
}

/** Adds the zipper-merged lanes of `from` to those of `to`, in pairs. */
function addZipped(to: Lanes, from: Key): void {
  for (const [i, j] of [[0, 1] as const, [2, 3] as const]) {
    const pair = Buffer.alloc(16)
    pair.writeBigUInt64LE(from[i], 0)
    pair.writeBigUInt64LE(from[j], 8)
    const zipped = Buffer.from(ZIPPER.map((at) => pair[at] as number))
    to[i] = uint64(to[i] + zipped.readBigUInt64LE(0))
    to[j] = uint64(to[j] + zipped.readBigUInt64LE(8))
  }
}

function lanesOf(packet: Uint8Array): Lanes {
  const view = new DataView(packet.buffer, packet.byteOffset, PACKET_BYTES)
  return eachLane((i) => view.getBigUint64(8 * i, true))
}

function eachLane(laneOf: (i: (typeof LANES)[number]) => bigint): Lanes {
  return [laneOf(0), laneOf(1), laneOf(2), laneOf(3)]
}

function uint64(sum: bigint): bigint {
  return BigInt.asUintN(64, sum)
}

function low(lane: bigint): bigint {
  return lane & 0xffffffffn
}

function high(lane: bigint): bigint {
  return lane >> 32n
}

function swapHalves(lane: bigint): bigint {
  return (low(lane) << 32n) | high(lane)
}

/** Rotates a word of 32 bits to the left, by 1 to 31. */
function rotate32(word: bigint, bits: bigint): bigint {
  return low((word << bits) | (word >> (32n - bits)))
}
