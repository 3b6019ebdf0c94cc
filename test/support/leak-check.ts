import assert from 'node:assert/strict'
import type { Place } from './places.js'
import { IS_BEFORE_7 } from './servers/engine.js'
import { RedisServer } from './servers/redis-server.js'
import { waitUntil } from './wait-until.js'

/**
 * Waits until the server holds nothing of the test any more: no key, no subscription, no connection except
 * the admin's. Fails with a list of what is left.
 * @param options.keys keys that may stay, such as `/^redisson_lock_token:/`
 * @param options.withinMs how long to wait; default 5 s
 */
export async function expectNothingLeft(
  server: Place,
  options: { keys?: RegExp; withinMs?: number | undefined } = {},
): Promise<void> {
  let left: string[] = []
  await waitUntil(
    async () => {
      left = await whatIsLeft(server, options.keys)
      return left.length === 0
    },
    {
      timeoutMs: options.withinMs ?? 5_000,
      message: () => `nothing should be left on the server, but there is\n  ${left.join('\n  ')}`,
    },
  )
}

/** Which semaphore of a name it was, the record of a client that was killed, and those of jobs stay for a while, and expire. */
const EXPIRING = /^holdfast_(generation|client|job):|^holdfast_(jobs|web_locks)$/

async function whatIsLeft(place: Place, allowed: RegExp | undefined): Promise<string[]> {
  const { admin } = place
  const [keys, channels, shardChannels, connections] = await Promise.all([
    admin.keys('*'),
    admin.pubsub('CHANNELS'),
    IS_BEFORE_7 ? [] : admin.pubsub('SHARDCHANNELS'),
    place instanceof RedisServer ? allBut(place) : place.connections(),
  ])
  const expiries = await Promise.all(
    keys.filter((key) => !allowed?.test(key)).map(async (key) => ({ key, ms: await admin.pttl(key) })),
  )
  const unexpected = expiries.filter(({ key, ms }) => !(EXPIRING.test(key) && ms >= 0))
  return [
    ...unexpected.map(({ key, ms }) => `key ${key}, PTTL ${ms}`),
    ...channels.map((channel) => `channel ${String(channel)}`),
    ...shardChannels.map((channel) => `shard channel ${String(channel)}`),
    ...connections.map((line) => `connection ${line}`),
  ]
}

/** All connections but that of the check: one server has no others, and the admin opens no second. */
async function allBut({ admin }: RedisServer): Promise<string[]> {
  const [ownId, clients] = await Promise.all([admin.client('ID'), admin.client('LIST')])
  const lines = String(clients).trim().split('\n')
  return lines.filter((line) => !line.startsWith(`id=${ownId} `))
}

const ALARMING = new Set([
  'MaxListenersExceededWarning',
  'TimeoutOverflowWarning',
  'TimeoutNegativeWarning',
  'TimeoutNaNWarning',
])

/** What the process complained about since `watchProcess`. */
export interface ProcessWatch {
  readonly complaints: readonly string[]
  /** Fails if there was an unhandled rejection, an uncaught exception, or a warning about listeners or timers. */
  assertQuiet(): Promise<void>
  /** Removes the handlers. */
  stop(): void
}

/** Collects unhandled rejections, uncaught exceptions, and warnings about listeners or timers, until stopped. */
export function watchProcess(): ProcessWatch {
  const complaints: string[] = []
  const onRejection = (reason: unknown) => complaints.push(`unhandled rejection: ${describe(reason)}`)
  const onException = (error: unknown) => complaints.push(`uncaught exception: ${describe(error)}`)
  const onWarning = (warning: Error) => {
    if (ALARMING.has(warning.name)) complaints.push(`warning: ${describe(warning)}`)
  }
  process.on('unhandledRejection', onRejection).on('uncaughtException', onException).on('warning', onWarning)
  return {
    complaints,
    async assertQuiet() {
      // Node reports a rejection after the microtasks and a warning in the next tick of the turn they happen in.
      await new Promise((resolve) => setImmediate(resolve))
      assert.deepEqual(complaints, [], 'the process should have had nothing to complain about')
    },
    stop() {
      process.off('unhandledRejection', onRejection).off('uncaughtException', onException).off('warning', onWarning)
    },
  }
}

function describe(problem: unknown): string {
  return problem instanceof Error ? (problem.stack ?? problem.message) : String(problem)
}

/**
 * How many timers are running beyond `baseline` (an earlier result of this function). Node counts only those that keep
 * the process alive: an unref'd timer is not among them.
 */
export function timersLeft(baseline = 0): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length - baseline
}
