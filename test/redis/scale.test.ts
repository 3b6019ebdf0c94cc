import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { listening } from '../support/subscribers.js'
import { waitUntil } from '../support/wait-until.js'

describe('many waiters, locks and processes', () => {
  const fixture = setUpFixture()

  it('waiters of one process for one lock share one subscription and cost a handful of commands in total', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const hold = await lock.lock()
    let sections = 0
    const count = await countCommands(fixture.server, async () => {
      const waiting = Array.from({ length: 1_000 }, () => lock.withLock(() => sections++))
      await listening(fixture)
      await hold.unlock()
      await Promise.all(waiting)
      await listening(fixture, 0)
    })
    assert.equal(sections, 1_000)
    assert.equal(count.calls['subscribe'], 1)
    assert.equal(count.calls['unsubscribe'], 1)
    assert(count.scripts < 100, `${count.scripts} scripts for 1 000 sections`)
  })

  it('waiters that give up or are aborted leave nothing behind, and the others are still served', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    const hold = await lock.lock()
    const controller = new AbortController()
    const refused = Array.from({ length: 500 }, () => lock.tryLock({ waitTimeMs: 300 }))
    const aborted = Array.from({ length: 500 }, () => lock.lock({ signal: controller.signal }))
    const served = lock.lock()
    assert((await Promise.all(refused)).every((outcome) => outcome === null))
    controller.abort()
    for (const outcome of await Promise.allSettled(aborted)) assert.equal(outcome.status, 'rejected')
    await listening(fixture)
    await hold.unlock()
    await (await served).unlock()
  })

  it('contended locks of one process need one subscriber connection', async () => {
    const [owner, client] = [await fixture.connect(), await fixture.connect()]
    const names = Array.from({ length: 2_000 }, (_, n) => `lock:${n}`)
    const holds = await Promise.all(names.map((name) => owner.getLock(name).lock()))
    const waiting = names.map((name) => client.getLock(name).lock())
    const inLine = async (): Promise<number> => (await fixture.server.admin.keys('holdfast_turn_queue:*')).length
    await waitUntil(async () => (await inLine()) === 2_000, { timeoutMs: 60_000 })
    const clients = String(await fixture.server.admin.client('LIST'))
      .trim()
      .split('\n')
    assert.equal(clients.filter((line) => / sub=[1-9]/.test(line)).length, 1)
    await Promise.all(holds.map((hold) => hold.unlock()))
    for (const hold of await Promise.all(waiting)) void hold.unlock()
    await waitUntil(async () => (await fixture.server.admin.keys('*')).length === 0, { timeoutMs: 30_000 })
  })

  it('lock cycles leave the heap flat and no key behind', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const client = await fixture.connect()
    const cycle = async (n: number): Promise<void> => {
      const hold = await client.getLock(`lock:${n % 50}`).lock()
      if (n % 3 === 0) assert.equal(hold.signal.aborted, false)
      if (n % 5 === 0) assert.equal(await client.getLock(`lock:${n % 50}`).tryLock(), null)
      if (n % 100 === 0) await client.getLock(`lock:${n % 50}`).tryLock({ waitTimeMs: 2 })
      await hold.unlock()
    }
    const heapAfter = async (cycles: number): Promise<number> => {
      for (let n = 0; n < cycles; n++) await cycle(n)
      collectGarbage()
      await new Promise((resolve) => setImmediate(resolve))
      collectGarbage()
      return process.memoryUsage().heapUsed
    }
    // Code that V8 compiles meanwhile, and connections, count once; a leak counts in every round.
    const growths: number[] = []
    let before = await heapAfter(1_000)
    do {
      const after = await heapAfter(5_000)
      growths.push(after - before)
      before = after
    } while (growths.length < 4 && (growths.at(-1) as number) >= 1_000_000)
    assert((growths.at(-1) as number) < 1_000_000, `the heap grew in each 5,000 cycles, by ${growths.join(', ')} bytes`)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('processes contend for one lock: no sections overlap, no update is lost, nobody starves', async () => {
    const CONTENDER = new URL('../support/processes/contender-process.js', import.meta.url)
    const children = Array.from({ length: 4 }, () => spawnChild(CONTENDER, [fixture.server.url, '4', '25']))
    await Promise.all(children.map((child) => child.nextMessage(({ at }) => at === 'ready', 20_000)))
    for (const child of children) child.send({ go: true })
    const reports = await Promise.all(
      children.map((child) => child.nextMessage<{ at: string; sections: number }>(({ at }) => at === 'done', 60_000)),
    )
    assert.deepEqual(
      reports.map(({ sections }) => sections),
      [100, 100, 100, 100],
    )
    assert.equal(await fixture.server.admin.get('counter'), '400')
    assert.equal(await fixture.server.admin.get('overlaps'), null)
    await Promise.all(children.map((child) => child.exit))
    await fixture.server.admin.del('counter', 'inside')
  })
})
