/**
 * The metrics, once for all exporters. Only two durations are recorded as they happen; everything else is a number in
 * memory that is read when metrics are collected. No attribute has a lock's name, holder or label: each value would be a
 * series of its own.
 */
import { monotonicNow } from '../util/real-time.js'
import { subscribeTo } from './channels.js'
import { errorTypeOf, missTypeOf } from './error-type.js'
import { type GroupOf, Groups } from './groups.js'
import { Ongoing } from './ongoing.js'
import { type Attributes, type Sample, Tally } from './tally.js'

export interface Metric {
  readonly name: string
  readonly type: 'histogram' | 'upDownCounter' | 'gauge' | 'counter'
  readonly unit: string
  readonly description: string
  readonly attributes: readonly string[]
  /** The bucket boundaries of a histogram. */
  readonly buckets?: readonly number[]
}

const KIND = 'holdfast.lock.kind'
/** Attribute of every metric that has a kind, if there is `groupOf`. */
export const GROUP = 'holdfast.lock.group'
const PATH = 'holdfast.acquire.path'
const END = 'holdfast.hold.end'
const ERROR = 'error.type'
const REASON = 'holdfast.loss.reason'
const RESULT = 'holdfast.renewal.result'
const CODE = 'holdfast.warning.code'

/** In seconds; the default of the OpenTelemetry SDK begins at 5. Each is a series of each group, kind and way. */
const BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300]

const HISTOGRAMS = {
  acquireDuration: {
    name: 'holdfast.acquire.duration',
    type: 'histogram',
    unit: 's',
    description: 'How long calls took to get a lock, or to fail to.',
    attributes: [KIND, PATH, ERROR],
    buckets: BUCKETS,
  },
  holdDuration: {
    name: 'holdfast.hold.duration',
    type: 'histogram',
    unit: 's',
    description: 'How long locks were held.',
    attributes: [KIND, END],
    buckets: [...BUCKETS, 3600],
  },
} as const satisfies Record<string, Metric>

const OBSERVED = {
  holds: {
    name: 'holdfast.holds',
    type: 'upDownCounter',
    unit: '{hold}',
    description: 'Holds at present.',
    attributes: [KIND],
  },
  waiters: {
    name: 'holdfast.waiters',
    type: 'upDownCounter',
    unit: '{waiter}',
    description: 'Calls that wait for a lock at present.',
    attributes: [KIND],
  },
  oldestHold: {
    name: 'holdfast.hold.oldest',
    type: 'gauge',
    unit: 's',
    description: 'For how long the oldest present hold has lasted.',
    attributes: [KIND],
  },
  oldestWait: {
    name: 'holdfast.wait.oldest',
    type: 'gauge',
    unit: 's',
    description: 'For how long the oldest present wait has lasted.',
    attributes: [KIND],
  },
  losses: {
    name: 'holdfast.hold.losses',
    type: 'counter',
    unit: '{hold}',
    description: 'Holds that were lost before they were released.',
    attributes: [KIND, REASON],
  },
  renewals: {
    name: 'holdfast.lease.renewals',
    type: 'counter',
    unit: '{lease}',
    description: 'Leases that the watchdog has renewed, or tried to.',
    attributes: [RESULT],
  },
  margin: {
    name: 'holdfast.lease.margin',
    type: 'gauge',
    unit: 's',
    description: 'Least time left of any lease when it was renewed, since the last collection.',
    attributes: [],
  },
  watchdogDelay: {
    name: 'holdfast.watchdog.delay',
    type: 'gauge',
    unit: 's',
    description:
      'How late the watchdog fired at worst, since the last collection: for how long the event loop was blocked.',
    attributes: [],
  },
  commandFailures: {
    name: 'holdfast.command.failures',
    type: 'counter',
    unit: '{command}',
    description: 'Commands without a reply or with an error reply.',
    attributes: [ERROR],
  },
  warnings: {
    name: 'holdfast.warnings',
    type: 'counter',
    unit: '{warning}',
    description: 'Warnings of clients.',
    attributes: [CODE],
  },
} as const satisfies Record<string, Metric>

type HistogramId = keyof typeof HISTOGRAMS
export type ObservedId = keyof typeof OBSERVED

/** Every metric. The docs, the dashboard and the alerts are checked against it. */
export const METRICS: { readonly [Id in HistogramId | ObservedId]: Metric } = { ...HISTOGRAMS, ...OBSERVED }
export const HISTOGRAM_IDS = Object.keys(HISTOGRAMS) as readonly HistogramId[]
export const OBSERVED_IDS = Object.keys(OBSERVED) as readonly ObservedId[]

/** Records one duration, s. */
export type Recorders = { readonly [Id in HistogramId]: (seconds: number, attributes: Attributes) => void }

/** Reads what all clients of this process report. */
export class Metrics {
  /** Unsubscribes. */
  readonly stop: () => void
  readonly #groups: Groups | undefined
  readonly #now: () => number
  readonly #acquired = new Tally(KIND, GROUP, PATH, ERROR)
  readonly #ended = new Tally(KIND, GROUP, END)
  readonly #holds = new Ongoing(KIND, GROUP)
  readonly #waits = new Ongoing(KIND, GROUP)
  readonly #losses = new Tally(KIND, GROUP, REASON)
  readonly #renewals = new Tally(RESULT)
  readonly #failures = new Tally(ERROR)
  readonly #warnings = new Tally(CODE)
  #minMarginMs = Number.POSITIVE_INFINITY
  #worstDelayMs = Number.NEGATIVE_INFINITY

  /** @param now  the clock for the ages of holds and waits, ms */
  constructor(recorders: Recorders, groupOf: GroupOf | undefined, now = monotonicNow) {
    this.#groups = groupOf && new Groups(groupOf)
    this.#now = now
    this.stop = subscribeTo({
      'holdfast:request:wait': (request) => {
        const since = this.#now() - request.waitedMs
        this.#waits.begin(request, since, request.kind, this.#groupOf(request.lockName))
      },
      'holdfast:request:grant': (request) => {
        const { kind, hold, path, waitedMs } = request
        const group = this.#groupOf(request.lockName)
        if (request.hasWaited) this.#waits.end(request)
        if (hold) this.#holds.begin(hold, this.#now(), kind, group)
        recorders.acquireDuration(waitedMs / 1_000, this.#acquired.of(kind, group, path).attributes)
      },
      'holdfast:request:miss': (request) => {
        const { kind, lockName, hasWaited, waitedMs } = request
        if (hasWaited) this.#waits.end(request)
        const path = hasWaited ? 'wait' : 'direct'
        const missed = this.#acquired.of(kind, this.#groupOf(lockName), path, missTypeOf(request))
        recorders.acquireDuration(waitedMs / 1_000, missed.attributes)
      },
      'holdfast:hold:end': ({ kind, lockName, hold, heldMs, path, error }) => {
        const group = this.#groupOf(lockName)
        this.#holds.end(hold)
        recorders.holdDuration(heldMs / 1_000, this.#ended.of(kind, group, path).attributes)
        if (error) this.#losses.of(kind, group, error.reason).value++
      },
      'holdfast:renew': ({ result, marginMs, delayMs }) => {
        this.#renewals.of(result).value++
        if (result === 'renewed') this.#minMarginMs = Math.min(this.#minMarginMs, marginMs)
        this.#worstDelayMs = Math.max(this.#worstDelayMs, delayMs)
      },
      'holdfast:warning': ({ warning }) => {
        this.#warnings.of(errorTypeOf(warning)).value++
      },
      'holdfast:command:error': ({ error }) => {
        this.#failures.of(errorTypeOf(error)).value++
      },
    })
  }

  /** The present samples of a metric. Reading the margin or the delay begins a new interval. */
  read(id: ObservedId): Iterable<Sample> {
    return this.#samples[id]()
  }

  readonly #samples: { readonly [Id in ObservedId]: () => Iterable<Sample> } = {
    holds: () => this.#holds.tally.samples,
    waiters: () => this.#waits.tally.samples,
    oldestHold: () => this.#holds.ages(this.#now()),
    oldestWait: () => this.#waits.ages(this.#now()),
    losses: () => this.#losses.samples,
    renewals: () => this.#renewals.samples,
    commandFailures: () => this.#failures.samples,
    warnings: () => this.#warnings.samples,
    margin: () => {
      const minMs = this.#minMarginMs
      this.#minMarginMs = Number.POSITIVE_INFINITY
      return inSeconds(minMs)
    },
    watchdogDelay: () => {
      const worstMs = this.#worstDelayMs
      this.#worstDelayMs = Number.NEGATIVE_INFINITY
      return inSeconds(worstMs)
    },
  }

  #groupOf(lockName: string): string | undefined {
    return this.#groups?.of(lockName)
  }
}

/** No sample if nothing was measured. */
function inSeconds(ms: number): Iterable<Sample> {
  return Number.isFinite(ms) ? [{ attributes: {}, value: ms / 1_000 }] : []
}
