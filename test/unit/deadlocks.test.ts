/** Which waits are a deadlock, and which only look like one. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { confirm, deadlocksIn, suspectedIn } from '../../src/fleet/deadlocks.js'
import type { HolderInfo, LockInfo, WaiterInfo } from '../../src/fleet/lock-info.js'
import { SeededRandom } from '../../src/testing/seeded-random.js'
import { cyclesIn } from '../../src/util/cycles.js'

/** Holders, by a digit of their client: Holdfast's ids have a mark. */
const NODE = (client: string, owner = 1): string => `${client.repeat(8)}-0000-4000-8000-0000401dfa57:${owner}`
const JAVA = (client: string, thread = 26): string => `${client.repeat(8)}-d47f-43e2-b3c3-05ba1491bfd0:${thread}`

function clientOf(holder: string) {
  const [client = ''] = holder.split(':')
  return { id: client, name: 'app', host: 'host', pid: 1, version: '' }
}

function held(holder: string, other: Partial<HolderInfo> = {}): HolderInfo {
  return { holder, holdCount: 1, status: 'responding', client: clientOf(holder), heldMs: 5_000, ...other }
}

/** A wait in a call chain that holds `locks`. */
function waiting(wait: number, holder: string, locks: string[], other: Partial<WaiterInfo> = {}): WaiterInfo {
  const chain = locks.map((lock) => ({ lock, holder }))
  return { client: clientOf(holder), wait, waitedMs: 1_000, chain, status: 'responding', ...other }
}

function ofJava(holder: string): WaiterInfo {
  return { holder, chain: [], status: 'unlisted', position: 1 }
}

function lock(
  name: string,
  holders: HolderInfo[],
  waiters: WaiterInfo[] = [],
  other: Partial<LockInfo> = {},
): LockInfo {
  return {
    name,
    kind: 'lock',
    remainingLeaseMs: 30_000,
    holders,
    waiters,
    otherListeners: 0,
    doubts: [],
    ...other,
  }
}

const locksOf = (cycles: { locks: readonly string[] }[]): string[] =>
  cycles.map(({ locks }) => [...locks].sort().join()).sort()

/** `x` holds a and waits for b, `y` holds b and waits for a. */
const CROSSED = [
  lock('a', [held(NODE('1'))], [waiting(7, NODE('2'), ['b'])]),
  lock('b', [held(NODE('2'))], [waiting(3, NODE('1'), ['a'])]),
]

describe('cycles of a graph', () => {
  it('cycles of a graph are found one by one, without a node in common or any recursion', () => {
    const ring = new Map(Array.from({ length: 50_000 }, (_, node) => [node, new Set([(node + 1) % 50_000])]))
    assert.equal(cyclesIn(ring)[0]?.length, 50_000)
    const two = new Map([
      ['a', new Set(['b'])],
      ['b', new Set(['a', 'c'])],
      ['c', new Set(['d'])],
      ['d', new Set(['c', 'a'])],
      ['e', new Set(['e'])],
      ['f', new Set(['a'])],
    ])
    assert.deepEqual(locksOf(cyclesIn(two).map((locks) => ({ locks }))), ['a,b', 'c,d', 'e'])
  })

  it('cycles of a graph are found once, from wherever they are reached', () => {
    const graphOf = (edges: Record<string, string[]>) =>
      new Map(Object.entries(edges).map(([node, next]) => [node, new Set(next)]))
    assert.deepEqual(cyclesIn(graphOf({ a: ['b'], b: ['b'] })), [['b']])
    assert.deepEqual(cyclesIn(graphOf({ b: ['b'], a: ['b'] })), [['b']])
    assert.deepEqual(cyclesIn(graphOf({ a: ['b'], b: ['c'], c: [] })), [])
    const found = cyclesIn(graphOf({ start: ['a'], a: ['b'], b: ['a', 'end'], end: [] }))
    assert.deepEqual(
      found.map((cycle) => [...cycle].sort()),
      [['a', 'b']],
    )
  })

  it('cycles of a graph lead along edges, and what is left of the graph has none', () => {
    const random = new SeededRandom(16)
    for (let round = 0; round < 300; round++) {
      const nodes = Array.from({ length: 12 }, (_, node) => node)
      const graph = new Map(nodes.map((node) => [node, new Set(nodes.filter(() => random.fraction() < 0.12))]))
      const cycles = cyclesIn(graph)
      for (const cycle of cycles) {
        cycle.forEach((node, index) => {
          assert.ok(graph.get(node)?.has(cycle[(index + 1) % cycle.length] ?? -1))
        })
      }
      const left = new Set(nodes.filter((node) => !cycles.flat().includes(node)))
      for (let before = -1; before !== left.size; ) {
        before = left.size
        for (const node of left) if (![...(graph.get(node) ?? [])].some((next) => left.has(next))) left.delete(node)
      }
      assert.equal(left.size, 0)
    }
  })
})

describe('a deadlock', () => {
  it('a deadlock is two call chains that wait for what the other holds', () => {
    const [cycle, ...others] = deadlocksIn(CROSSED)
    assert.equal(others.length, 0)
    assert.deepEqual(cycle?.locks, ['a', 'b'])
    assert.deepEqual(
      cycle?.owners.map(({ holder }) => holder),
      [NODE('1'), NODE('2')],
    )
    assert.equal(cycle?.endsInMs, null)
    assert.deepEqual(suspectedIn(CROSSED), [], 'and is not suspected besides')
  })

  it('a deadlock ends when the first of its waits gives up', () => {
    const bounded = [
      lock('a', [held(NODE('1'))], [waiting(7, NODE('2'), ['b'], { givesUpInMs: 3_200 })]),
      lock('b', [held(NODE('2'))], [waiting(3, NODE('1'), ['a'], { givesUpInMs: 60_000 })]),
    ]
    assert.equal(deadlocksIn(bounded)[0]?.endsInMs, 3_200)
  })

  it('a deadlock with a parallel wait ends when the last wait of that call chain gives up', () => {
    const [a, b] = CROSSED as [LockInfo, LockInfo]
    const parallel = [waiting(7, NODE('2'), ['b'], { givesUpInMs: 10 }), waiting(8, NODE('2'), ['b'])]
    assert.equal(deadlocksIn([{ ...a, waiters: parallel }, b])[0]?.endsInMs, null)
  })

  it('a deadlock needs the same call chain: two tasks of one owner wait for different things', () => {
    const owner = NODE('2')
    const locks = [
      lock('a', [held(NODE('1'))], [waiting(7, owner, [])]),
      lock('b', [held(owner)], [waiting(3, NODE('1'), ['a'])]),
    ]
    assert.deepEqual(deadlocksIn(locks), [])
  })

  it('a deadlock of a writer points to every reader, also where a field ends in :write', () => {
    const readers = [held(NODE('2'), { mode: 'read' }), held(NODE('3'), { mode: 'read' })]
    const locks = [
      lock('a', [held(`${NODE('1')}:write`, { mode: 'write' })], [waiting(1, NODE('3'), ['rw'])]),
      lock('rw', readers, [waiting(2, NODE('1'), ['a'])]),
    ]
    assert.deepEqual(locksOf(deadlocksIn(locks)), ['a,rw'])
    assert.deepEqual(
      deadlocksIn(locks)[0]?.owners.map(({ holder }) => holder),
      [`${NODE('1')}:write`, NODE('3')],
    )
  })

  it('a deadlock is found where two readers wait to write', () => {
    const readers = [held(NODE('1'), { mode: 'read' }), held(NODE('2'), { mode: 'read' })]
    const waiters = [waiting(1, NODE('1'), ['rw']), waiting(2, NODE('2'), ['rw'])]
    assert.notDeepEqual(deadlocksIn([lock('rw', readers, waiters)]), [])
  })

  it('a deadlock includes a thread of Java that is in the queue of a fair lock', () => {
    const java = JAVA('9')
    const locks = [
      lock('fair', [held(NODE('1'))], [ofJava(java)], { kind: 'fair lock' }),
      lock('plain', [{ holder: java, holdCount: 1, status: 'unlisted' }], [waiting(1, NODE('1'), ['fair'])]),
    ]
    assert.deepEqual(locksOf(deadlocksIn(locks)), ['fair,plain'])
    const other = JAVA('9', 27)
    assert.deepEqual(deadlocksIn([{ ...locks[0], waiters: [ofJava(other)] } as LockInfo, locks[1] as LockInfo]), [])
  })

  it('an older Holdfast in a fair queue is in no reported deadlock, as its tasks may share an owner', () => {
    const old = NODE('9')
    const locks = [
      lock('fair', [held(NODE('1'))], [ofJava(old)], { kind: 'fair lock' }),
      lock('plain', [{ holder: old, holdCount: 1, status: 'unlisted' }], [waiting(1, NODE('1'), ['fair'])]),
    ]
    assert.deepEqual(deadlocksIn(locks), [])
  })

  it('a deadlock is not reported through a semaphore, a lost hold, or a silent client', () => {
    const [a, b] = CROSSED as [LockInfo, LockInfo]
    assert.deepEqual(deadlocksIn([a, { ...b, kind: 'permit expirable semaphore' }]), [])
    assert.deepEqual(deadlocksIn([{ ...a, holders: [] }, b]), [])
    for (const status of ['silent', 'disconnected'] as const) {
      assert.deepEqual(deadlocksIn([{ ...a, waiters: a.waiters.map((waiter) => ({ ...waiter, status })) }, b]), [])
    }
  })
})

describe('two snapshots', () => {
  const [a, b] = CROSSED as [LockInfo, LockInfo]
  const later = CROSSED.map((one) => ({ ...one, holders: one.holders.map((two) => ({ ...two, heldMs: 5_400 })) }))

  it('two snapshots confirm a deadlock that lasts', () => {
    assert.deepEqual(locksOf([...confirm(CROSSED, later).cycles]), ['a,b'])
  })

  it('two snapshots confirm no deadlock if a wait, a hold or its owner changed in between', () => {
    const withWait = (wait: number) => [{ ...a, waiters: [{ ...a.waiters[0], wait }] } as LockInfo, b]
    const withHold = (hold: Partial<HolderInfo>) => [{ ...a, holders: [{ ...a.holders[0], ...hold }] } as LockInfo, b]
    assert.equal(confirm(withWait(8), CROSSED).cycles.length, 0, 'another wait')
    assert.equal(confirm(withHold({ holder: NODE('1', 2) }), CROSSED).cycles.length, 0, 'another owner')
    assert.equal(confirm(CROSSED, withHold({ heldMs: 100 })).cycles.length, 0, 'taken again by the same owner')
    assert.equal(confirm([a], CROSSED).cycles.length, 0, 'a lock that was not there')
  })

  it('two snapshots of locks taken in one order never confirm a deadlock, although each is uneven', () => {
    const random = new SeededRandom(7)
    const world = new OrderedWorld(random)
    for (let round = 0; round < 3_000; round++) {
      // Each lock is read at another moment.
      const snapshot = () => world.names.map((name) => world.readNext(name))
      assert.deepEqual(confirm(snapshot(), snapshot()).cycles, [])
    }
    assert.ok(world.waits > 1_000, `${world.waits} waits`)
  })
})

describe('a suspicion', () => {
  it('a suspicion is a wait outside any call chain, by a client that holds what another waits for', () => {
    const locks = [
      lock('a', [held(NODE('1'))], [waiting(7, NODE('2'), [])]),
      lock('b', [held(NODE('2'))], [waiting(3, NODE('1'), ['a'])]),
    ]
    assert.deepEqual(locksOf(suspectedIn(locks)), ['a,b'])
    const newer = [locks[0] as LockInfo, { ...locks[1], holders: [held(NODE('2'), { heldMs: 500 })] } as LockInfo]
    assert.deepEqual(suspectedIn(newer), [], 'what was taken later is not what the wait keeps')
  })

  it('a suspicion is not that tasks of one client wait for each other', () => {
    const locks = [
      lock('a', [held(NODE('1', 1))], [waiting(7, NODE('1', 2), [])]),
      lock('b', [held(NODE('1', 2))], [waiting(3, NODE('1', 1), [])]),
    ]
    assert.deepEqual(suspectedIn(locks), [])
  })

  it('a suspicion is a Java process that holds what is waited for while another unknown one waits', () => {
    const java: HolderInfo = { holder: JAVA('9'), holdCount: 1, status: 'unlisted' }
    const locks = [
      lock('a', [held(NODE('1'))], [], { otherListeners: 1 }),
      lock('b', [java], [waiting(3, NODE('1'), ['a'])]),
    ]
    assert.deepEqual(locksOf(suspectedIn(locks)), ['a,b'])
    assert.deepEqual(locksOf([...confirm(locks, locks).suspected]), ['a,b'])
    assert.deepEqual(deadlocksIn(locks), [])
    const onlyJava = [
      lock('a', [java], [], { otherListeners: 1 }),
      lock('b', [{ ...java, holder: JAVA('8') }], [], { otherListeners: 1 }),
    ]
    assert.deepEqual(suspectedIn(onlyJava), [], 'two contended locks of Java are no reason')
  })
})

/** Tasks that take locks in one order, some in nested waits, one step at a time. */
class OrderedWorld {
  readonly names = ['a', 'b', 'c', 'd']
  waits = 0
  #clock = 0
  readonly #random: SeededRandom
  readonly #tasks = Array.from({ length: 6 }, (_, index) => ({
    owner: NODE(String(index)),
    held: [] as { name: string; since: number }[],
    waitsFor: undefined as { name: string; wait: number } | undefined,
  }))

  constructor(random: SeededRandom) {
    this.#random = random
  }

  #step(): void {
    this.#clock++
    const task = this.#tasks[Math.floor(this.#random.fraction() * this.#tasks.length)]
    if (!task) return
    const highest = this.names.indexOf(task.held.at(-1)?.name ?? '')
    if (task.waitsFor) {
      const { name } = task.waitsFor
      if (this.#tasks.some(({ held }) => held.some((one) => one.name === name))) return
      task.held.push({ name, since: this.#clock })
      task.waitsFor = undefined
    } else if (highest < this.names.length - 1 && this.#random.fraction() < 0.6) {
      const next = highest + 1 + Math.floor(this.#random.fraction() * (this.names.length - 1 - highest))
      task.waitsFor = { name: this.names[next] ?? '', wait: ++this.waits }
    } else {
      task.held.pop()
    }
  }

  readNext(name: string): LockInfo {
    this.#step()
    const holders = this.#tasks.flatMap(({ owner, held: holds }) =>
      holds.filter((one) => one.name === name).map(({ since }) => held(owner, { heldMs: this.#clock - since })),
    )
    const waiters = this.#tasks.flatMap(({ owner, held: holds, waitsFor }) =>
      waitsFor?.name === name
        ? [
            waiting(
              waitsFor.wait,
              owner,
              holds.map((one) => one.name),
            ),
          ]
        : [],
    )
    return lock(name, holders, waiters)
  }
}
