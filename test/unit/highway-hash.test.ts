import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fieldDigest, highwayHash128 } from '../../src/wire/highway-hash.js'

describe('the digest of a value', () => {
  // All from Redisson 4.7.0: Hash.hash128toBase64 of the value encoded by StringCodec.
  const digests = {
    '': 't6rZwibGo2uy1OSmNVe8pg',
    a: 'qwvAS12pR0CgRitaypEjUw',
    b: 'Q5CdP+xmkHdTGWYr64Lw6A',
    'order:1001': 'h+SMPiUh63S4kPHUKRHgRg',
    größe: 'TbTdvo+5kWNgp8M8i2crew',
    '锁🔒': 'fbcy4Wj7kA14GCx/2ChMxA',
    '\0': 'ntmkVtE20ANYrJ9J+qTLcA',
    ['x'.repeat(40)]: 'f7Jru6bkns3GXv9zTqQUDA',
    ['ÿ'.repeat(33)]: 'F7iMqq4Nypj7fgtml6Nt2Q',
    ['😀'.repeat(16)]: 'i6Cu/jOZYUovE1GQzRYYkQ',
    ['é'.repeat(1_000)]: '/jm17WmSgxoNoSq7P9gbFQ',
  }
  for (const [value, digest] of Object.entries(digests)) {
    const shown = value.length > 20 ? `${value.slice(0, 2)}… (${value.length} characters)` : value
    it(`the digest of a value is ${digest} for ${JSON.stringify(shown)}`, () => {
      assert.equal(fieldDigest(value), digest)
    })
  }

  /** Of the first 0, 1, 2 … 70 characters of TEXT: every way to fill the last packet, after none, one and two full ones. */
  const BY_LENGTH = `
  t6rZwibGo2uy1OSmNVe8pg qwvAS12pR0CgRitaypEjUw qIx8Ray65QDI9s9SyboNig BhA5LsZVetaLy1jDRVlHJg haHCdewnDAU7SZwj3LgylA
  hfWj1wpMNXSGnlmtGr6oUA +heudOGmFN+Mxv/r8QJUag P6TpLrU4Dz8XExotmdI1nA omG782WBnZu4wQ1oFrUAfQ gDdRq7MNKERuQDuzVo934Q
  AzBCYTRYmOvGzFXTImatpg Lm8Bo1Ag2Oe4G7jiSEYc8w pZQkrQ/sq98ztJnd06zfXA 0b2hRkeWcRRxx1GziLFDDw tGBc60pg1lIOXUz41TCy8Q
  fbvr+UR0uYE5hcFqmrwKxg DRQHuJNg2ZB9Ji9kknWISA Oh8rQdv3ax3DyyyWvauaGQ G8DoLTsjKkhHOiXq0vM84Q OISRjVF8T6bpm/jNko6+6Q
  5AsCb9evagfvCnS1taVhcg McEbIae+3QryOp4mzzC72A dLq3hhpYqAAZz1Sd60/Hqw bathvS7ctFZZfXAXHYcihA 03/GhCdUPutqSEzxq1WSVw
  6J/8zTb0Doq4OrXpDdfR5Q TmUoRoftFSHry6UeiUSHpQ N7/47gMBjKRJojRAB0ZDLA +ZNSdwV+xGERRqNbesJGfw iSDp7XtbgB/7a9Sh+KBu+Q
  wBnSNodnfbuHthT3Fk8ecg A21sggdwihG0NSkaxSNQ9g UvL6UsyY2Fdfr5Y3tauCmQ wD9OKwY7gMqg1tHiQjuIFA 8wRltxYJje4T/i56eNha8Q
  5fOFF6qWdKSqbRKUG6YBig nMtxa73M/ZjwHCcA4AdYhg Pv7Sp+0f7tgi4vKkEoCl5g Qrpnb5MEuvoaAvob/Zjazw M2qqK/YZOUeRXRLzmpmgcg
  wE8cdw1bLBbk+cDzrM5nIA 24hlStwhNRMMIpo3gBo91Q xvuL2snfxQS64vSI8xKarQ Z1Qp+op989MmoYsixCxr9w rvFGKq7JR8m5V9yNUl4VjA
  t4/wawKhTFsMp3PhQ54xCA Hl0V1nWbjw4fp2V/qH/Hcg lEZbN5NMbgJuMD+TPMaYQw NaGPUoXAb/8aK0kJN6HUnA u47G+1X/ksPIBX65bPcZTQ
  5qWwfzfwqHKvqK9aOLzYTA NubVXui/urCyqIm9VfmFuQ 7IMXGbA7PkSVARPElOLhwA AlxvmBvCL8TxXebLbpRqog GvTuR6VnPJL+YU/nIvQm8A
  nhdsUEJNQjCf3aiiiFDLOw XdLF/bmT4c+cr9RCO9aMPA ENOI9DTKZBlIcKtmEaPAnA JVWsx2jv6SSn9FkWgQhlEg TGrYnzAjP8DO2x1ttcPAEA
  2t7M3OfDmh0H8g1of3rcDA zv2my2qDfE6KUNz/Wf2QTA rNYXvh3/g5nosFxOsM7AZw TYrRqmMXBhvsrllgMxcybQ yDonC3iRJwc59jtO7BMk0w
  FCzkOXCaZ7hDywcssyM/Yw 8Bi3g3Y4EVEO8kMStIoSRA qdNAhRjZRU21o05iNF4UQA 1snz4k6H9XG/nXZs+HalRg Bdyee1cM97+90rpMAPu0GQ
  y+eLKG6/8Zsxc8zwiKSTaA
  `
  const TEXT = 'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.,:;!?'

  it('the digest of a value is that of Redisson for every length up to 70 bytes', () => {
    const expected = BY_LENGTH.trim().split(/\s+/)
    assert.equal(expected.length, TEXT.length + 1)
    assert.deepEqual(
      expected.map((_, length) => fieldDigest(TEXT.slice(0, length))),
      expected,
    )
  })
})

describe('HighwayHash-128', () => {
  // The key of the algorithm's own test vectors: the bytes 0 to 31.
  const KEY = [0x0706050403020100n, 0x0f0e0d0c0b0a0908n, 0x1716151413121110n, 0x1f1e1d1c1b1a1918n] as const

  it('HighwayHash-128 gives its two halves in their order', () => {
    assert.deepEqual(highwayHash128(new Uint8Array(0), KEY), [0x0fed268f9d8ffec7n, 0x33565e767f093e6fn])
  })

  it('HighwayHash-128 takes bytes from the middle of a buffer, and leaves them as they are', () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, n) => n)
    const part = bytes.subarray(3, 3 + 45)
    assert.deepEqual(highwayHash128(part, KEY), highwayHash128(Uint8Array.from(part), KEY))
    assert.deepEqual(
      bytes,
      Uint8Array.from({ length: 100 }, (_, n) => n),
    )
  })
})
