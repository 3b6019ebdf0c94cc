// SHA-1 for runtimes that have it only in Web Crypto, which is asynchronous.

/** @returns hexadecimal digits */
export function sha1(text: string): string {
  const bytes = new TextEncoder().encode(text)
  // The text, a bit that ends it, and its length in bits, in blocks of 64 bytes.
  const blocks = new DataView(new ArrayBuffer((((bytes.length + 8) >> 6) + 1) << 6))
  new Uint8Array(blocks.buffer).set(bytes)
  blocks.setUint8(bytes.length, 0x80)
  blocks.setUint32(blocks.byteLength - 4, bytes.length * 8)
  const hash: Hash = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]
  for (let block = 0; block < blocks.byteLength; block += 64) addBlock(hash, blocks, block)
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
}

type Hash = [number, number, number, number, number]

const words = new Int32Array(80)
const word = (round: number): number => words[round] as number

function addBlock(hash: Hash, blocks: DataView, block: number): void {
  let [a, b, c, d, e] = hash
  for (let round = 0; round < 80; round++) {
    words[round] =
      round < 16
        ? blocks.getInt32(block + round * 4)
        : rotated(word(round - 3) ^ word(round - 8) ^ word(round - 14) ^ word(round - 16), 1)
    let mixed: number
    if (round < 20) mixed = ((b & c) | (~b & d)) + 0x5a827999
    else if (round < 40) mixed = (b ^ c ^ d) + 0x6ed9eba1
    else if (round < 60) mixed = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
    else mixed = (b ^ c ^ d) + 0xca62c1d6
    const next = (rotated(a, 5) + mixed + e + word(round)) | 0
    e = d
    d = c
    c = rotated(b, 30)
    b = a
    a = next
  }
  hash[0] += a
  hash[1] += b
  hash[2] += c
  hash[3] += d
  hash[4] += e
}

function rotated(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits))
}
