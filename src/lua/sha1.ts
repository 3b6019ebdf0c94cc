// SHA-1 for runtimes that have it only in Web Crypto, which is asynchronous.

/** @returns hexadecimal digits */
export function sha1(text: string): string {
  const bytes = new TextEncoder().encode(text)
  // The text, a bit that ends it, and its length in bits, in blocks of 64 bytes.
  const blocks = new DataView(new ArrayBuffer((((bytes.length + 8) >> 6) + 1) << 6))
  new Uint8Array(blocks.buffer).set(bytes)
  blocks.setUint8(bytes.length, 0x80)
  blocks.setUint32(blocks.byteLength - 4, bytes.length * 8)
  const hash = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0])
  const words = new Int32Array(80)
  const word = (at: number): number => words[at] as number
  for (let block = 0; block < blocks.byteLength; block += 64) {
    let [a, b, c, d, e] = hash as unknown as [number, number, number, number, number]
    for (let round = 0; round < 80; round++) {
      words[round] =
        round < 16
          ? blocks.getInt32(block + round * 4)
          : rotated(word(round - 3) ^ word(round - 8) ^ word(round - 14) ^ word(round - 16), 1)
      const mixed = MIXERS[Math.floor(round / 20)]?.(b, c, d) ?? 0
      const next = (rotated(a, 5) + mixed + e + word(round)) | 0
      ;[a, b, c, d, e] = [next, a, rotated(b, 30), c, d]
    }
    for (const [index, value] of [a, b, c, d, e].entries()) hash[index] = (hash[index] as number) + value
  }
  return Array.from(hash, (part) => (part >>> 0).toString(16).padStart(8, '0')).join('')
}

/** For twenty rounds each. */
const MIXERS: readonly ((b: number, c: number, d: number) => number)[] = [
  (b, c, d) => ((b & c) | (~b & d)) + 0x5a827999,
  (b, c, d) => (b ^ c ^ d) + 0x6ed9eba1,
  (b, c, d) => ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc,
  (b, c, d) => (b ^ c ^ d) + 0xca62c1d6,
]

function rotated(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits))
}
