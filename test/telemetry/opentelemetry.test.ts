/** What reaches an exporter of OpenTelemetry, with its SDK. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Context, type ContextManager, context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api'
import { type DataPoint, type Histogram, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { getMultiLock } from '../../src/index.js'
import { METRICS } from '../../src/telemetry/metrics.js'
import { openTelemetry } from '../../src/telemetry/opentelemetry.js'
import type { ClientFixture } from '../support/fakes/client-fixture.js'
import { Scenario } from './scenario.js'

class Reader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** As `@opentelemetry/context-async-hooks`. */
class Contexts implements ContextManager {
  readonly #store = new AsyncLocalStorage<Context>()
  active(): Context {
    return this.#store.getStore() ?? ROOT_CONTEXT
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    fn: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#store.run(active, () => fn.call(self as never, ...args))
  }
  bind<T>(_context: Context, target: T): T {
    return target
  }
  enable(): this {
    return this
  }
  disable(): this {
    return this
  }
}

let scenario: Scenario
let reader: Reader
let spans: InMemorySpanExporter
let stop: () => void
let tracerProvider: BasicTracerProvider

function start(groupOf?: (name: string) => string): void {
  reader = new Reader()
  spans = new InMemorySpanExporter()
  tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
  stop = openTelemetry({ meterProvider: new MeterProvider({ readers: [reader] }), tracerProvider, groupOf })
}

beforeEach(() => {
  scenario = new Scenario()
  start()
})

afterEach(async () => {
  stop()
  await scenario.fixture.close()
})

/** The series of a metric, such as `lock wait`, with their values; of a histogram with their counts. */
async function series(id: keyof typeof METRICS): Promise<Record<string, number>> {
  const points = await pointsOf(METRICS[id].name)
  const entries = points.map(({ attributes, value }) => {
    const number = typeof value === 'number' ? value : (value as Histogram).count
    return [Object.values(attributes).join(' '), number] as const
  })
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function pointsOf(name: string): Promise<DataPoint<unknown>[]> {
  const { resourceMetrics, errors } = await reader.collect()
  assert.deepEqual(errors, [])
  const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
  return (metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? []) as DataPoint<unknown>[]
}

describe('an acquire', () => {
  const steps = {
    direct: { acquired: { 'lock direct': 1 }, ended: { 'lock released': 1 } },
    waited: { acquired: { 'lock direct': 1, 'lock wait': 1 }, ended: { 'lock released': 2 } },
    handedOff: {
      acquired: { 'lock direct': 1, 'lock handoff': 1 },
      ended: { 'lock handed_off': 1, 'lock released': 1 },
    },
    reentered: { acquired: { 'lock direct': 1, 'lock reentry': 1 }, ended: { 'lock released': 2 } },
    timedOut: { acquired: { 'lock direct': 1, 'lock wait LOCK_WAIT_TIMEOUT': 1 }, ended: { 'lock released': 1 } },
    aborted: { acquired: { 'lock direct': 1, 'lock wait aborted': 1 }, ended: { 'lock released': 1 } },
    failed: { acquired: { 'lock direct OOM': 1 }, ended: {} },
    transferred: { acquired: { 'lock direct': 2 }, ended: { 'lock released': 1, 'lock transferred': 1 } },
  } as const
  for (const [step, { acquired, ended }] of Object.entries(steps)) {
    it(`an acquire that is ${step} has exactly these series`, async () => {
      await scenario[step as keyof typeof steps]()
      assert.deepEqual(await series('acquireDuration'), acquired)
      assert.deepEqual(await series('holdDuration'), ended)
      assert.ok(Object.values(await series('holds')).every((held) => held === 0))
      assert.ok(Object.values(await series('waiters')).every((waiting) => waiting === 0))
      assert.deepEqual(await series('losses'), {})
      assert.deepEqual(await series('commandFailures'), step === 'failed' ? { OOM: 1 } : {})
    })
  }

  it('an acquire of any kind of lock has its kind', async () => {
    const { client } = scenario.fixture
    await client.getFairLock('f').withLock(async () => {})
    await client.getFencedLock('t').withLock(async () => {})
    await getMultiLock(client.getLock('x'), client.getLock('y')).withLock(async () => {})
    assert.deepEqual(await series('acquireDuration'), {
      'fair lock direct': 1,
      'fenced lock direct': 1,
      'multi-lock direct': 1,
    })
  })

  it('the duration of an acquire is in the buckets of the advice, in seconds', async () => {
    await scenario.waited()
    const [point] = (await pointsOf('holdfast.acquire.duration')).filter(
      ({ attributes }) => attributes['holdfast.acquire.path'] === 'wait',
    )
    assert.ok(point)
    const { buckets, sum } = point.value as Histogram
    assert.deepEqual(buckets.boundaries, METRICS.acquireDuration.buckets)
    assert.ok(sum !== undefined && sum >= 0.3 && sum < 1, String(sum))
  })
})

describe('a loss', () => {
  for (const reason of ['expired', 'maxHold', 'forced', 'gone', 'closed']) {
    it(`a loss because of ${reason} has exactly these series`, async () => {
      await scenario.lose[reason]?.(scenario.fixture.lock)
      assert.deepEqual(await series('losses'), { [`lock ${reason}`]: 1 })
      assert.deepEqual(await series('holdDuration'), { 'lock lost': 1 })
      assert.deepEqual(await series('holds'), { lock: 0 })
    })
  }
})

describe('what is held and waited for', () => {
  it('what is held and waited for is counted, and its age is that of the oldest', async () => {
    const { lock } = scenario.fixture
    const [hold, waiting] = await scenario.fixture.heldAndWaitedFor(2)
    assert.deepEqual(await series('holds'), { lock: 1 })
    assert.deepEqual(await series('waiters'), { lock: 2 })
    for (const id of ['oldestHold', 'oldestWait'] as const) assert.ok(((await series(id))['lock'] as number) > 0)
    await hold.unlock()
    await (await waiting[0])?.unlock()
    await waiting[1]
    assert.deepEqual(await series('waiters'), { lock: 0 })
    assert.deepEqual(await series('holds'), { lock: 1 })
    await lock.forceUnlock()
    assert.deepEqual(await series('holds'), { lock: 0 })
    assert.deepEqual(await series('oldestHold'), { lock: 0 })
  })
})

describe('the watchdog', () => {
  it('the watchdog is seen by its renewals, least margin and worst timer delay since the last one', async () => {
    const { clock, lock } = scenario.fixture
    await lock.lock()
    await clock.advance(1_000)
    clock.block(500)
    await clock.advance(1_000)
    assert.deepEqual(await series('renewals'), { renewed: 2 })
    await clock.advance(1_000)
    clock.block(1_200)
    await clock.advance(1)
    const { resourceMetrics } = await reader.collect()
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    const latest = (name: string): unknown =>
      metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints[0]?.value
    assert.ok((latest('holdfast.lease.margin') as number) <= 2)
    assert.ok((latest('holdfast.watchdog.delay') as number) >= 0.2)
    await clock.advance(2_000)
    assert.deepEqual(await series('margin'), { '': 2 })
    await lock.forceUnlock()
  })
})

describe('groupOf', () => {
  it('groupOf adds a group to what has a kind, at most 100 of them', async () => {
    stop()
    start((name) => name.split(':')[0] ?? '')
    const { client } = scenario.fixture
    await client.getLock('order:1').withLock(async () => {})
    await client.getLock('order:2').withLock(async () => {})
    assert.deepEqual(await series('acquireDuration'), { 'lock order direct': 2 })
    for (let index = 0; index < 105; index++) await client.getLock(`g${index}:1`).withLock(async () => {})
    const all = await series('holdDuration')
    assert.equal(Object.keys(all).length, 101)
    assert.equal(all['lock other released'], 6)
  })

  it('groupOf that throws is a process warning, once', async () => {
    stop()
    start(() => {
      throw new Error('no group')
    })
    const warnings: Error[] = []
    const collect = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', collect)
    await scenario.direct()
    await scenario.direct()
    assert.deepEqual(await series('acquireDuration'), { 'lock other direct': 2 })
    process.off('warning', collect)
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['no group'],
    )
  })
})

describe('the metrics', () => {
  it('the metrics have the names, units, types and attributes of the table', async () => {
    for (const step of ['waited', 'handedOff', 'timedOut', 'failed'] as const) await scenario[step]()
    await scenario.renewed()
    await scenario.lose['forced']?.(scenario.fixture.lock)
    channel('holdfast:warning').publish({ clientId: '', warning: new Error('publishing is refused') })
    const { resourceMetrics } = await reader.collect()
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    for (const { name, unit, description, attributes } of Object.values(METRICS)) {
      const metric = metrics.find(({ descriptor }) => descriptor.name === name)
      assert.equal(metric?.descriptor.unit, unit, name)
      assert.equal(metric?.descriptor.description, description)
      const found = new Set(metric?.dataPoints.flatMap((point) => Object.keys(point.attributes)))
      assert.deepEqual([...found].sort(), [...attributes].sort(), name)
    }
    assert.equal(metrics.length, Object.keys(METRICS).length)
  })

  it('the metrics are reported no more after stop()', async () => {
    stop()
    await scenario.direct()
    assert.deepEqual(await series('acquireDuration'), {})
    assert.deepEqual(await series('holds'), {})
    assert.equal(channel('holdfast:request:start').hasSubscribers, false)
    assert.equal(channel('holdfast:hold:end').hasSubscribers, false)
  })
})

describe('spans', () => {
  const finished = (name?: string): ReadableSpan[] =>
    spans.getFinishedSpans().filter((span) => name === undefined || span.name === name)

  beforeEach(() => context.setGlobalContextManager(new Contexts()))
  afterEach(() => context.disable())

  it('spans of a hold are the parents of what the function of withLock does', async () => {
    const tracer = tracerProvider.getTracer('program')
    const { lock } = scenario.fixture
    let traceOf: string | undefined
    await tracer.startActiveSpan('request', async (request) => {
      await lock.withLock({ label: 'refund' }, async (hold) => {
        tracer.startSpan('body').end()
        traceOf = hold.span?.traceId
      })
      request.end()
    })
    const [body, hold, request] = ['body', 'lock hold', 'request'].map((name) => finished(name)[0])
    assert.equal(body?.parentSpanContext?.spanId, hold?.spanContext().spanId)
    assert.equal(hold?.parentSpanContext?.spanId, request?.spanContext().spanId)
    assert.deepEqual(finished('lock acquire'), [])
    assert.equal(hold?.attributes['holdfast.label'], 'refund')
    assert.equal(traceOf, hold?.spanContext().traceId)
    assert.equal(hold?.attributes['holdfast.hold.end'], 'released')
    assert.equal(trace.getSpan(context.active()), undefined)
  })

  it('spans of an acquire begin when the call did, if it had to wait', async () => {
    await scenario.waited()
    const [acquire, ...more] = finished('lock acquire')
    assert.equal(more.length, 0)
    const [seconds, nanoseconds] = acquire?.duration ?? [0, 0]
    assert.ok(seconds * 1_000 + nanoseconds / 1e6 >= 299)
    assert.equal(acquire?.attributes['holdfast.acquire.path'], 'wait')
    assert.equal(acquire?.attributes['holdfast.lock.name'], 'a')
  })

  it("spans of a failed acquire have the error's status and type; a refused single try has none", async () => {
    await scenario.timedOut()
    await scenario.failed()
    const held = await scenario.fixture.other.getLock('a').lock()
    assert.equal(await scenario.fixture.lock.tryLock(), null)
    await held.unlock()
    assert.deepEqual(
      finished('lock acquire').map(({ status, attributes }) => [status.code, attributes['error.type']]),
      [
        [SpanStatusCode.ERROR, 'LOCK_WAIT_TIMEOUT'],
        [SpanStatusCode.ERROR, 'OOM'],
      ],
    )
  })

  describe('spans of an acquire that waited for long or in vain', () => {
    const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
    const SPAN = '00f067aa0ba902b7'
    const CLIENT = '8743c9c0-0795-4907-87fd-6c71401dfa57'

    /** Another process holds the lock, and has said this of its hold. */
    function heldElsewhere(fixture: ClientFixture, said: object): void {
      fixture.redis.set('a', `${CLIENT}:7`, 1, 60_000)
      const hold = { lock: 'a', holder: `${CLIENT}:7`, count: 1, heldMs: 20_000, ...said }
      const record = { v: 1, client: CLIENT, name: 'orders', host: '', pid: 1, holds: [hold], waits: [] }
      fixture.redis.execute(['SET', `holdfast_client:${CLIENT}`, JSON.stringify(record), 'PX', '3600000'])
    }

    const linksOf = (span: ReadableSpan | undefined) =>
      span?.links.map(({ context: { traceId, spanId, isRemote }, attributes }) => [
        traceId,
        spanId,
        isRemote,
        attributes?.['holdfast.holder'],
      ])

    it('spans of an acquire link to the hold of the same client, also if the call does not throw', async () => {
      const { clock, lock } = scenario.fixture
      const hold = await lock.lock()
      await assert.rejects(clock.until(lock.lock({ waitTimeMs: 50 })))
      assert.equal(await clock.until(lock.tryLock({ waitTimeMs: 50 })), null)
      await hold.unlock()
      const { traceId, spanId } = finished('lock hold')[0]?.spanContext() ?? {}
      const links = finished('lock acquire').map(linksOf)
      assert.deepEqual(links, Array(2).fill([[traceId, spanId, false, hold.holder]]))
    })

    it('spans of an acquire link to the hold of another process that says which one it is', async () => {
      const { clock } = scenario.fixture
      const { client } = scenario.fixture.connect({ inspection: { name: 'billing' } })
      heldElsewhere(scenario.fixture, { trace: TRACE, span: SPAN })
      await assert.rejects(clock.until(client.getLock('a').lock({ waitTimeMs: 1_000 })))
      scenario.fixture.redis.delete('a')
      assert.deepEqual(linksOf(finished('lock acquire')[0]), [[TRACE, SPAN, true, `${CLIENT}:7`]])
    })

    it('spans of an acquire link to the hold also if they got the lock in the end', async () => {
      const { clock } = scenario.fixture
      const { client } = scenario.fixture.connect({ inspection: { name: 'billing' } })
      heldElsewhere(scenario.fixture, { trace: TRACE, span: SPAN })
      client.on('longWait', () => {})
      const waiting = client.getLock('a').lock({ warnAfterMs: 1_000 })
      await clock.advance(1_500)
      scenario.fixture.redis.delete('a')
      await (await clock.until(waiting)).unlock()
      const [acquire] = finished('lock acquire')
      assert.equal(acquire?.attributes['holdfast.acquire.path'], 'wait')
      assert.deepEqual(linksOf(acquire), [[TRACE, SPAN, true, `${CLIENT}:7`]])
    })

    it('spans of a long or vain acquire have no link if that is not known, or makes no sense', async () => {
      const { clock } = scenario.fixture
      const { client } = scenario.fixture.connect({ inspection: { name: 'billing' } })
      for (const said of [{}, { trace: TRACE }, { trace: TRACE, span: 'x' }, { trace: `${TRACE}0`, span: SPAN }]) {
        heldElsewhere(scenario.fixture, said)
        await assert.rejects(clock.until(client.getLock('a').lock({ waitTimeMs: 1_000 })))
      }
      scenario.fixture.redis.delete('a')
      assert.deepEqual(finished('lock acquire').map(linksOf), [[], [], [], []])
    })
  })

  it('spans of a hold are told to those who ask its client what it holds', async () => {
    const { client } = scenario.fixture.connect({ inspection: { name: 'billing' } })
    const hold = await client.getLock('a').lock()
    const { holders } = await scenario.fixture.clock.until(client.fleet.inspect('a'))
    await hold.unlock()
    const { traceId, spanId } = finished('lock hold')[0]?.spanContext() ?? {}
    assert.deepEqual([holders[0]?.trace, holders[0]?.span], [traceId, spanId])
  })

  it('spans of a hold that was lost have the loss as an exception, and the fencing token', async () => {
    const lock = scenario.fixture.client.getFencedLock('t')
    const { fencingToken } = await lock.lock()
    await lock.forceUnlock()
    const [hold] = finished('lock hold')
    assert.equal(hold?.status.code, SpanStatusCode.ERROR)
    assert.equal(hold?.attributes['holdfast.loss.reason'], 'forced')
    assert.equal(hold?.attributes['holdfast.fencing_token'], String(fencingToken))
    assert.deepEqual(
      hold?.events.map(({ name }) => name),
      ['exception'],
    )
  })
})
