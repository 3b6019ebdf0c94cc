/** What one uncontended cycle costs this process. Run with --expose-gc and a young generation that holds all cycles. */
import { createHook } from 'node:async_hooks'
import { Session } from 'node:inspector/promises'
import { getHeapStatistics } from 'node:v8'
import { type Client, connect } from '../../../src/index.js'
import { report } from './child.js'

/** Of one cycle. */
export interface Cost {
  /** Created, also by the Redis client and by `await`. */
  readonly promises: number
  readonly timers: number
  /** Garbage, kB, also of the Redis client and of Node. */
  readonly kB: number
  /** Of functions of Holdfast. */
  readonly calls: number
  /** In which those are. */
  readonly files: number
}

const CYCLES = 500

/** A cycle that many calls make is warm; the first ones also learn the time of the server, and load scripts. */
const WARM_UP = 2_000

const CYCLE: Record<string, (client: Client) => Promise<void>> = {
  lock: async (client) => await (await client.getLock('a').lock()).unlock(),
  withLock: async (client) => await client.getLock('a').withLock(async ({ signal }) => signal.throwIfAborted()),
}

async function costOf(cycle: () => Promise<void>): Promise<Cost> {
  await repeat(WARM_UP, cycle)
  globalThis.gc?.()
  const before = getHeapStatistics().used_heap_size
  await repeat(CYCLES, cycle)
  const kB = (getHeapStatistics().used_heap_size - before) / CYCLES / 1_000
  const { promises, timers } = await resourcesOf(cycle)
  return { promises, timers, kB, ...(await callsOf(cycle)) }
}

async function repeat(times: number, cycle: () => Promise<void>): Promise<void> {
  for (let n = 0; n < times; n++) await cycle()
}

async function resourcesOf(cycle: () => Promise<void>): Promise<Pick<Cost, 'promises' | 'timers'>> {
  let [promises, timers] = [0, 0]
  const hook = createHook({
    init(_id, type) {
      if (type === 'PROMISE') promises++
      if (type === 'Timeout') timers++
    },
  }).enable()
  await repeat(CYCLES, cycle)
  hook.disable()
  return { promises: Math.round(promises / CYCLES), timers: timers / CYCLES }
}

async function callsOf(cycle: () => Promise<void>): Promise<Pick<Cost, 'calls' | 'files'>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await repeat(1, cycle)
  await session.post('Profiler.takePreciseCoverage')
  await repeat(CYCLES, cycle)
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  let calls = 0
  const files = new Set<string>()
  for (const { url, functions } of result) {
    if (!url.includes('/src/')) continue
    for (const { ranges } of functions) {
      const count = (ranges[0]?.count ?? 0) / CYCLES
      if (count < 0.5) continue // what happens now and then
      calls += count
      files.add(url)
    }
  }
  return { calls: Math.round(calls), files: files.size }
}

const [url = '', name = ''] = process.argv.slice(2)
const client = await connect(url)
const cycle = CYCLE[name] as (typeof CYCLE)[string]
report(await costOf(() => cycle(client)))
await client.close()
