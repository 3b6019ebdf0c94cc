/** What the reply of fleet/read means, whatever is in Redis. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { untagged } from '../../src/fleet/lock-channels.js'
import { parseLockKeys } from '../../src/fleet/lock-keys.js'
import { globToRegExp } from '../../src/util/glob.js'
import { clientIdOf } from '../../src/wire/holder.js'

const NOW = 1_700_000_000_000
const OWNER = '9f1c2d1e-3b64-4c0e-8a54-0d5d6a0f7b11:47'
const OTHER = '05f2b8c4-d47f-43e2-b3c3-05ba1491bfd0:8'

interface Reply {
  type?: string
  left?: number
  text?: string
  fields?: string[]
  queue?: string[]
  tickets?: string[]
  permits?: (string | number)[]
  hasToken?: number
  hasGeneration?: number
  places?: string[]
}

function parse(reply: Reply) {
  const { type = 'hash', left = 20_000, text = '', fields = [], queue = [], tickets = [], permits = [] } = reply
  const { hasToken = 0, hasGeneration = 0, places = [] } = reply
  const counts = [hasToken, hasGeneration, 0, 0]
  return parseLockKeys('a', [NOW, type, left, text, fields, queue, tickets, permits, ...counts, places])
}

describe('the keys of a name', () => {
  it('an ordered lock has its waiters in order, with their priorities', () => {
    const places = ['c1:3:write', String(-5 * 2 ** 42 + 1), 'c2:1', '7', 'c1:4', String(2 ** 42 + 9)]
    const { kind, queue, priorities } = parse({ fields: ['mode', 'read', 'c1:1', '1'], places })
    assert.equal(kind, 'read-write lock')
    assert.deepEqual(queue, ['c1:3:write', 'c2:1', 'c1:4'])
    assert.deepEqual(
      queue.map((holder) => priorities.get(holder)),
      [5, 0, -1],
    )
  })

  const kinds: readonly [what: string, reply: Reply, kind: string][] = [
    ['one holder', { fields: [OWNER, '1'] }, 'lock'],
    ['one holder with a queue', { fields: [OWNER, '1'], queue: [OTHER] }, 'fair lock'],
    ['one holder with a token', { fields: [OWNER, '1'], hasToken: 1 }, 'fenced lock'],
    ['a mode', { fields: ['mode', 'read', OWNER, '1'] }, 'read-write lock'],
    ['values', { fields: ['v', OWNER, `v:${OWNER}:expire_time`, String(NOW + 9)] }, 'multi-lock of values'],
    ['the text of a holder with an expiry', { type: 'string', text: OWNER }, 'string lock'],
    ['a number with a generation', { type: 'string', left: -1, text: '3', hasGeneration: 1 }, 'semaphore'],
    ['a number with leases', { type: 'string', left: -1, text: '3', permits: ['0f', 5] }, 'permit expirable semaphore'],
    ['a number alone', { type: 'string', left: -1, text: '3' }, 'unknown'],
    ['the text of a holder without an expiry', { type: 'string', left: -1, text: OWNER }, 'unknown'],
    ['a field of data', { fields: ['name', 'Ada'] }, 'unknown'],
    ['a holder with an absurd hold count', { fields: [OWNER, '1e9'] }, 'unknown'],
    ['nothing', { type: 'none', left: -2 }, 'unknown'],
    ['nothing but a queue', { type: 'none', left: -2, queue: [OTHER] }, 'fair lock'],
    ['nothing but a token', { type: 'none', left: -2, hasToken: 1 }, 'fenced lock'],
    ['a list', { type: 'list', left: -1 }, 'unknown'],
  ]
  for (const [what, reply, kind] of kinds) {
    it(`the keys of a name with ${what} are those of: ${kind}`, () => assert.equal(parse(reply).kind, kind))
  }

  it('the keys of a name say who holds a lock, how often and for how long', () => {
    const { holders, remainingLeaseMs } = parse({ fields: [OWNER, '3'], left: 12_345 })
    assert.deepEqual(holders, [{ holder: OWNER, holdCount: 3 }])
    assert.equal(remainingLeaseMs, 12_345)
  })

  it('the keys of a name without an expiry mean a lease without end', () => {
    assert.equal(parse({ fields: [OWNER, '1'], left: -1 }).remainingLeaseMs, Number.POSITIVE_INFINITY)
  })

  it('the keys of a name say who reads and who writes', () => {
    const { holders } = parse({ fields: ['mode', 'write', `${OWNER}:write`, '1', OWNER, '2'] })
    assert.deepEqual(holders, [
      { holder: `${OWNER}:write`, holdCount: 1, mode: 'write' },
      { holder: OWNER, holdCount: 2, mode: 'read' },
    ])
  })

  it('the keys of a name tell each holder of values once, and leave out those whose leases ended', () => {
    const value = (name: string, holder: string, ms: number, count: string): string[] => [
      ...[name, holder, `${name}:${holder}:expire_time`, String(NOW + ms)],
      ...[`${name}:${holder}:lock_count`, count],
    ]
    const fields = [...value('v', OWNER, 100, '1'), ...value('w', OWNER, 700, '2'), ...value('x', OTHER, -1, '1')]
    const { holders, remainingLeaseMs } = parse({ fields })
    assert.deepEqual(holders, [{ holder: OWNER, holdCount: 2 }])
    assert.equal(remainingLeaseMs, 700)
  })

  it('the keys of a name tell the permits that are held, and the longest of their leases', () => {
    const { holders, remainingLeaseMs } = parse({ type: 'string', left: -1, text: '0', permits: ['0f', 5, '1e', 900] })
    assert.deepEqual(
      holders.map(({ holder }) => holder),
      ['0f', '1e'],
    )
    assert.equal(remainingLeaseMs, 900)
  })

  it('the keys of a name are cut if a list is longer than 200', () => {
    const tickets = Array.from({ length: 201 }, (_, at) => `${OWNER}${at}`)
    assert.equal(parse({ fields: [OWNER, '1'], tickets }).tickets.length, 200)
  })

  it('the keys of a name are refused if the reply is of something else', () => {
    assert.throws(() => parseLockKeys('a', 'QUEUED'), /not a reply of the script/)
    assert.throws(() => parseLockKeys('a', [NOW, 'hash', 5, '', 'x', [], [], [], 0, 0, 0]), /not a reply of the script/)
  })
})

it('the client of a holder or a ticket is its first half', () => {
  assert.equal(clientIdOf(OWNER), OWNER.split(':')[0])
  assert.equal(clientIdOf(`${OWNER}:write`), OWNER.split(':')[0])
  assert.equal(clientIdOf('0f0f'), '')
})

it('a name in braces may be that of two locks', () => {
  assert.deepEqual(untagged('{a}'), ['a', '{a}'])
  assert.deepEqual(untagged('{a}b'), ['{a}b'])
  assert.deepEqual(untagged('a{b}'), ['a{b}'])
})

describe('a pattern of Redis', () => {
  const cases: readonly [pattern: string, matching: string[], others: string[]][] = [
    ['lock:*', ['lock:', 'lock:a\nb'], ['lock', 'my lock:a']],
    ['a?c', ['abc', 'a.c'], ['ac', 'abbc']],
    ['[ab]x', ['ax', 'bx'], ['cx', '[ab]x']],
    ['[^a-c]x', ['dx'], ['ax', 'bx']],
    ['a.b(c)', ['a.b(c)'], ['aXb(c)']],
    ['\\*', ['*'], ['a']],
    ['{a}', ['{a}'], ['a']],
  ]
  for (const [pattern, matching, others] of cases) {
    it(`${pattern} matches the names that Redis would match`, () => {
      for (const name of matching) assert.match(name, globToRegExp(pattern))
      for (const name of others) assert.doesNotMatch(name, globToRegExp(pattern))
    })
  }
})
