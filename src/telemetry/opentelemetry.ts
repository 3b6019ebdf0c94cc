// holdfast/opentelemetry.
import {
  type MeterProvider,
  metrics as metricsApi,
  type ObservableResult,
  type TracerProvider,
  trace as traceApi,
} from '@opentelemetry/api'
import { ownOptions } from '../util/validate.js'
import type { GroupOf } from './groups.js'
import { HISTOGRAM_IDS, METRICS, Metrics, OBSERVED_IDS, type Recorders } from './metrics.js'
import { traceLocks } from './spans.js'

export type { GroupOf } from './groups.js'

export interface OpenTelemetryOptions {
  /**
   * The group of a lock, from its name: adds the attribute `holdfast.lock.group` to metrics. After 100 different groups the
   * others are `other`. Default: no groups.
   */
  groupOf?: GroupOf | undefined
  /** Default: the global one. */
  meterProvider?: MeterProvider | undefined
  /** Default: the global one. */
  tracerProvider?: TracerProvider | undefined
}

const OPTIONS = { groupOf: 1, meterProvider: 1, tracerProvider: 1 }
/** The instrumentation scope. */
const SCOPE = 'holdfast'

/**
 * Reports the metrics and spans of every Holdfast client of this process to OpenTelemetry. Call it once, after the SDK has
 * been started: the API ignores metrics of instruments that were created before.
 * @returns stops it
 * @throws {ConfigError} an option is unknown
 * @example `const stop = openTelemetry({ groupOf: (name) => name.split(':')[0] ?? '' })`
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): () => void {
  const { groupOf, meterProvider = metricsApi, tracerProvider = traceApi } = ownOptions(options, OPTIONS)
  const meter = meterProvider.getMeter(SCOPE)
  const recorders = Object.fromEntries(
    HISTOGRAM_IDS.map((id) => {
      const { name, unit, description, buckets = [] } = METRICS[id]
      const advice = { explicitBucketBoundaries: [...buckets] }
      const histogram = meter.createHistogram(name, { unit, description, advice })
      return [id, histogram.record.bind(histogram)]
    }),
  ) as unknown as Recorders
  const metrics = new Metrics(recorders, groupOf)
  const removeCallbacks = OBSERVED_IDS.map((id) => {
    const { name, type, unit, description } = METRICS[id]
    const create = {
      upDownCounter: meter.createObservableUpDownCounter,
      gauge: meter.createObservableGauge,
      counter: meter.createObservableCounter,
      histogram: undefined as never,
    }[type]
    const instrument = create.call(meter, name, { unit, description })
    const observe = (result: ObservableResult): void => {
      for (const { value, attributes } of metrics.read(id)) result.observe(value, attributes)
    }
    instrument.addCallback(observe)
    return () => instrument.removeCallback(observe)
  })
  const stopTracing = traceLocks(tracerProvider.getTracer(SCOPE))
  return () => {
    metrics.stop()
    stopTracing()
    for (const remove of removeCallbacks) remove()
  }
}
