import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import type { Changes, Snapshot, StreamMessage } from '../../src/dashboard/api.js'
import { type Dashboard, MountedDashboard } from '../../src/dashboard/dashboard.js'
import { idOf } from '../../src/dashboard/rows.js'
import { serveDashboard } from '../../src/dashboard/serve.js'
import { FakeFleet, heldLock } from '../support/dashboard.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { waitUntil } from '../support/wait-until.js'

let clock: FakeClock
let fleet: FakeFleet
let dashboard: Dashboard

beforeEach(() => {
  clock = new FakeClock()
  fleet = new FakeFleet()
  const options = { client: { fleet }, authorize: () => true, title: 'redis.internal', readOnly: true }
  dashboard = new MountedDashboard(options, { clock })
})

/** Reads one stream line by line. */
class Lines {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  #text = ''

  constructor(reply: Response) {
    assert.equal(reply.headers.get('content-type'), 'application/x-ndjson')
    assert.ok(reply.body)
    this.#reader = reply.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
  }

  /** @returns undefined: the stream has ended */
  async next<T extends StreamMessage>(): Promise<T | undefined> {
    while (!this.#text.includes('\n')) {
      const { value, done } = await this.#reader.read()
      if (done) return undefined
      this.#text += new TextDecoder().decode(value)
    }
    const [line = '', ...rest] = this.#text.split('\n')
    this.#text = rest.join('\n')
    return JSON.parse(line) as T
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel()
  }
}

async function open(): Promise<Lines> {
  return new Lines(await dashboard.fetch(new Request('http://localhost/api/stream')))
}

describe('a stream', () => {
  it('a stream begins with a snapshot, then has what differs, once a second', async () => {
    fleet.present = [heldLock('lock:a')]
    const lines = await open()
    const snapshot = await lines.next<Snapshot>()
    assert.deepEqual(
      [snapshot?.type, snapshot?.sequence, snapshot?.title, snapshot?.readOnly, snapshot?.locks.length],
      ['snapshot', 0, 'redis.internal', true, 1],
    )
    fleet.present = [heldLock('lock:b')]
    await clock.advance(1_000)
    const changes = await lines.next<Changes>()
    assert.deepEqual([changes?.type, changes?.sequence, changes?.removed], ['changes', 1, [idOf('lock:a')]])
    assert.deepEqual(
      changes?.changed.map(({ name }) => name),
      ['lock:b'],
    )
  })

  it('a stream applied line by line is what a new snapshot shows', async () => {
    const lines = await open()
    const known = new Map((await lines.next<Snapshot>())?.locks.map((row) => [row.id, row]))
    for (let second = 0; second < 20; second++) {
      fleet.present = Array.from({ length: 10 }, (_, index) => heldLock(`lock:${(second * 7 + index * 3) % 23}`))
      await clock.advance(1_000)
      const { changed = [], removed = [] } = (await lines.next<Changes>()) ?? {}
      for (const row of changed) known.set(row.id, row)
      for (const id of removed) known.delete(id)
    }
    const fresh = await (await open()).next<Snapshot>()
    assert.deepEqual(new Set(known.keys()), new Set(fresh?.locks.map(({ id }) => id)))
  })

  it('a stream shares the sampler with all others', async () => {
    const streams = await Promise.all(Array.from({ length: 30 }, open))
    await clock.advance(5_000)
    assert.equal(fleet.reads.all, 6)
    for (const lines of streams) assert.equal((await lines.next())?.type, 'snapshot')
  })

  it('a stream says since when Redis fails and from when its rows are, also at its start, and goes on', async () => {
    fleet.present = [heldLock('lock:a')]
    const lines = await open()
    assert.equal((await lines.next<Snapshot>())?.outage, undefined)
    fleet.failure = new Error('Redis is gone')
    await clock.advance(1_000)
    const error = 'Redis is gone'
    assert.deepEqual((await lines.next<Changes>())?.outage, { sinceAgoMs: 0, readAgoMs: 1_000, error })
    await clock.advance(1_000)
    const expected = { sinceAgoMs: 1_000, readAgoMs: 2_000, error }
    assert.deepEqual((await lines.next<Changes>())?.outage, expected)
    const late = await (await open()).next<Snapshot>()
    assert.deepEqual([late?.outage, late?.locks.length, late?.totals.held], [expected, 1, 1])
    fleet.failure = undefined
    await clock.advance(1_000)
    assert.equal((await lines.next<Changes>())?.outage, undefined)
  })

  it('a stream is not silent while Redis does not reply, and says so once that has failed', async () => {
    fleet.present = [heldLock('lock:a')]
    const lines = await open()
    await lines.next()
    let fail = (_: Error): void => {}
    fleet.beforeRead = () => new Promise((_, reject) => (fail = reject))
    await clock.advance(3_000)
    const beat = await lines.next<Changes>()
    assert.deepEqual([beat?.changed, beat?.removed, beat?.totals.held, beat?.outage], [[], [], 1, undefined])
    await clock.advance(2_000)
    await lines.next()
    fail(new Error('no reply'))
    assert.equal((await lines.next<Changes>())?.outage?.readAgoMs, 5_000)
    await clock.advance(3_000)
    assert.equal((await lines.next<Changes>())?.outage?.readAgoMs, 7_000)
  })

  it('a stream that nobody reads is closed, and costs no more memory', async () => {
    const lines = await open()
    await clock.advance(120_000)
    let count = 0
    while (await lines.next()) count++
    assert.ok(count >= 30 && count <= 32, `${count} lines were kept`)
  })

  it('a stream ends after 15 minutes, so that the reader is authorized again', async () => {
    const lines = await open()
    let ended = false
    const reading = (async () => {
      while (await lines.next()) await turn()
      ended = true
    })()
    for (let minute = 0; minute < 14; minute++) for (let part = 0; part < 6; part++) await clock.advance(10_000)
    assert.ok(!ended)
    for (let part = 0; part < 7; part++) await clock.advance(10_000)
    await reading
  })

  it('a stream that is left stops listening; after a minute nothing is sampled any more', async () => {
    const lines = await open()
    await lines.next()
    await lines.cancel()
    await clock.advance(62_000)
    assert.equal(clock.pending, 0)
  })

  it('a stream beyond 50 is refused until another one ends', async () => {
    const streams = await Promise.all(Array.from({ length: 50 }, open))
    const refused = await dashboard.fetch(new Request('http://localhost/api/stream'))
    assert.equal(refused.status, 503)
    await streams[0]?.cancel()
    await open()
  })

  it('a stream ends when the dashboard closes', async () => {
    const lines = await open()
    await lines.next()
    dashboard.close()
    assert.equal(await lines.next(), undefined)
  })
})

describe('a stream over HTTP', () => {
  it('a stream over HTTP arrives line by line, and is over for the server when the reader leaves', async () => {
    fleet.present = [heldLock('lock:a')]
    const options = { client: { fleet }, host: '127.0.0.1', port: 0, readOnly: true, hosts: [], user: 'alice' }
    const server = await serveDashboard(options, { clock })
    const leave = new AbortController()
    const headers = { authorization: `Bearer ${server.token}` }
    const lines = new Lines(await fetch(`${server.url}api/stream`, { headers, signal: leave.signal }))
    assert.equal((await lines.next())?.type, 'snapshot')
    fleet.present = []
    await clock.advance(1_000)
    assert.deepEqual((await lines.next<Changes>())?.removed, [idOf('lock:a')])
    leave.abort()
    await waitUntil(async () => {
      await clock.advance(61_000)
      return clock.pending === 0
    })
    await server.close()
  })
})
