/** The page of the dashboard while 1,000 locks change each second: its heap, and what keeps it from drawing. */
import { readFileSync } from 'node:fs'
import type { CDPSession } from 'puppeteer-core'
import { type Client, connect, type Hold } from '../../../src/index.js'
import { longestTask, TASK_CATEGORIES } from '../../support/servers/chromium.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import type { Place } from '../place.js'
import { Dashboard } from './dashboard.js'

export interface PageHeap {
  /** In the order of time. */
  readonly samples: readonly Sample[]
  /** From the first third of the samples to the last one, in the middle of each; without those of the warm-up. */
  readonly grownKb: number
  /** How often all locks changed. */
  readonly turns: number
  /** The longest that the page's thread worked without interruption, in each part of a trace: half and worst of them. */
  readonly longestMs: { readonly p50: number; readonly max: number; readonly wallMax: number }
  readonly found: readonly string[]
}

interface Sample {
  readonly seconds: number
  /** Of the page, after a garbage collection. */
  readonly heapKb: number
  readonly nodes: number
  /** Resident memory of `holdfast ui`. */
  readonly serverMb: number
}

const LOCKS = 1_000
/** What one of them holds fits into one reply. */
const CLIENTS = 8
const TURN_MS = 1_000
const TRACE_MS = 5_000
const PERIOD_MS = 10_000
/** The timeline of the open lock has its 100 bars by then. */
const WARM_UP_S = 120
/** What counts as flat: more than any noise seen, and less than one row kept for each change of ten minutes. */
const MOST_GROWN_KB = 512
/** How many turns the page may be behind. */
const MOST_BEHIND = 10
const VIEWPORT = { width: 1_280, height: 800, deviceScaleFactor: 1 }

export async function measurePageHeap(place: Place, seconds: number): Promise<PageHeap> {
  await using changes = await Changes.start(place.url)
  await using dashboard = await Dashboard.start(place)
  const { page } = dashboard
  await page.setViewport(VIEWPORT)
  await waitUntil(async () => (await dashboard.rows()).length > 0, { timeoutMs: 60_000, message: 'rows' })
  await dashboard.open((await dashboard.rows())[0]?.name ?? '')
  const devtools = await page.createCDPSession()
  await devtools.send('HeapProfiler.enable')
  const samples: Sample[] = []
  const tasks: ReturnType<typeof longestTask>[] = []
  const startedAt = monotonicMs()
  for (const endsAt = startedAt + seconds * 1_000; monotonicMs() < endsAt; ) {
    const nextAt = monotonicMs() + PERIOD_MS
    await page.tracing.start({ categories: TASK_CATEGORIES })
    await sleep(TRACE_MS)
    tasks.push(longestTask(await page.tracing.stop()))
    samples.push(await sampleOf(dashboard, devtools, (monotonicMs() - startedAt) / 1_000))
    await sleep(Math.max(0, nextAt - monotonicMs()))
  }
  const shown = (await dashboard.rows()).map(({ label }) => Number(/^turn (\d+)$/.exec(label)?.[1] ?? 0))
  const behind = changes.turns - Math.max(0, ...shown)
  const grownKb = grownIn(samples)
  const cpuMs = tasks.map((task) => task.cpuMs).sort((one, other) => one - other)
  return {
    samples,
    grownKb,
    turns: changes.turns,
    longestMs: {
      p50: rounded(cpuMs[Math.floor(cpuMs.length / 2)] ?? 0),
      max: rounded(cpuMs.at(-1) ?? 0),
      wallMax: rounded(Math.max(0, ...tasks.map((task) => task.wallMs))),
    },
    found: [
      ...(grownKb > MOST_GROWN_KB ? [`the page's heap has grown by ${grownKb} KB`] : []),
      ...(behind <= MOST_BEHIND ? [] : [`the page is ${behind} turns behind`]),
    ],
  }
}

async function sampleOf(dashboard: Dashboard, devtools: CDPSession, seconds: number): Promise<Sample> {
  await devtools.send('HeapProfiler.collectGarbage')
  const { usedSize } = await devtools.send('Runtime.getHeapUsage')
  const { Nodes = 0 } = await dashboard.page.metrics()
  const [, pages = ''] = readFileSync(`/proc/${dashboard.pid}/statm`, 'utf8').split(' ')
  return {
    seconds: Math.round(seconds),
    heapKb: Math.round(usedSize / 1_024),
    nodes: Nodes,
    serverMb: Math.round((Number(pages) * 4_096) / 1_048_576),
  }
}

function grownIn(samples: readonly Sample[]): number {
  const warm = samples.filter(({ seconds }) => seconds > WARM_UP_S)
  const third = Math.ceil(warm.length / 3)
  const middle = (some: readonly Sample[]): number =>
    some.map(({ heapKb }) => heapKb).sort((one, other) => one - other)[Math.floor(some.length / 2)] ?? 0
  return warm.length < 3 ? 0 : middle(warm.slice(-third)) - middle(warm.slice(0, third))
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10
}

/** Every lock is released and taken again once a second, with another label. */
class Changes implements AsyncDisposable {
  turns = 0
  readonly #clients: readonly Client[]
  readonly #over = new AbortController()
  readonly #running: Promise<unknown>

  static async start(url: string): Promise<Changes> {
    const clients = await Promise.all(
      Array.from({ length: CLIENTS }, (_, at) =>
        connect({ url, inspection: { name: 'orders', host: `orders-${at}` } }),
      ),
    )
    await Promise.all(clients.map(makeKnown))
    return new Changes(clients)
  }

  private constructor(clients: readonly Client[]) {
    this.#clients = clients
    this.#running = this.#change()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort()
    await this.#running
    await Promise.all(this.#clients.map((client) => client.close()))
  }

  async #change(): Promise<void> {
    let holds: Hold[] = []
    while (!this.#over.signal.aborted) {
      const nextAt = monotonicMs() + TURN_MS
      this.turns++
      await Promise.all(holds.map((hold) => hold.unlock()))
      holds = await Promise.all(
        Array.from({ length: LOCKS }, async (_, at) => {
          const client = this.#clients[at % CLIENTS] as Client
          return await client.getLock(`lock:order:${at}`).lock({ label: `turn ${this.turns}` })
        }),
      )
      await sleep(Math.max(0, nextAt - monotonicMs()))
    }
  }
}

/** A client makes itself known when it first waits. */
async function makeKnown(client: Client): Promise<void> {
  const gate = client.getLock(`gate:${client.id}`)
  const hold = await gate.lock()
  const behind = gate.lock()
  await sleep(0)
  await hold.unlock()
  await (await behind).unlock()
}
