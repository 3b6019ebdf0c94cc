// holdfast/prometheus.
import { Counter, Gauge, Histogram, type Registry, register } from 'prom-client'
import { ownOptions } from '../util/validate.js'
import type { GroupOf } from './groups.js'
import { GROUP, HISTOGRAM_IDS, METRICS, type Metric, Metrics, OBSERVED_IDS, type Recorders } from './metrics.js'

import type { Attributes } from './tally.js'

export type { GroupOf } from './groups.js'

export interface PrometheusOptions {
  /**
   * The group of a lock, from its name: adds the label `holdfast_lock_group`. After 100 different groups the others are
   * `other`. Default: no groups.
   */
  groupOf?: GroupOf | undefined
  /** Default: the global registry of prom-client. */
  registry?: Registry | undefined
}

const OPTIONS = { groupOf: 1, registry: 1 }

/**
 * Registers the metrics of every Holdfast client of this process with prom-client, under the names that an OpenTelemetry
 * exporter gives them. Call it once.
 * @returns stops it, and removes the metrics from the registry
 * @throws {ConfigError} an option is unknown
 * @throws an error of prom-client: the metrics are registered already
 * @example `const stop = prometheus({ registry })`
 */
export function prometheus(options: PrometheusOptions = {}): () => void {
  const { groupOf, registry = register } = ownOptions(options, OPTIONS)
  const describe = (metric: Metric) => ({
    name: prometheusName(metric),
    help: metric.description,
    labelNames: labelsOf(metric, groupOf !== undefined),
    registers: [registry],
  })
  const recorders = Object.fromEntries(
    HISTOGRAM_IDS.map((id) => {
      const histogram = new Histogram({ ...describe(METRICS[id]), buckets: [...(METRICS[id].buckets ?? [])] })
      return [id, (seconds: number, attributes: Attributes) => histogram.observe(labelled(attributes), seconds)]
    }),
  ) as unknown as Recorders
  const metrics = new Metrics(recorders, groupOf)
  for (const id of OBSERVED_IDS) {
    if (METRICS[id].type === 'counter') {
      const collect = function (this: Counter): void {
        this.reset()
        for (const { attributes, value } of metrics.read(id)) this.inc(labelled(attributes), value)
      }
      new Counter({ ...describe(METRICS[id]), collect })
    } else {
      const collect = function (this: Gauge): void {
        this.reset()
        if (METRICS[id].attributes.length === 0) this.remove() // it would be 0
        for (const { attributes, value } of metrics.read(id)) this.set(labelled(attributes), value)
      }
      new Gauge({ ...describe(METRICS[id]), collect })
    }
  }
  return () => {
    metrics.stop()
    for (const metric of Object.values(METRICS)) registry.removeSingleMetric(prometheusName(metric))
  }
}

/** @internal As OpenTelemetry translates it: with its unit, and `_total` for a counter. */
export function prometheusName({ name, unit, type }: Metric): string {
  return labelName(name) + (unit === 's' ? '_seconds' : '') + (type === 'counter' ? '_total' : '')
}

function labelsOf({ attributes }: Metric, hasGroups: boolean): string[] {
  const hasKind = attributes.includes('holdfast.lock.kind')
  return [...attributes, ...(hasKind && hasGroups ? [GROUP] : [])].map(labelName)
}

/** Found again by the attributes, which are the same object for each series. */
const knownLabels = new WeakMap<Attributes, Record<string, string>>()

function labelled(attributes: Attributes): Record<string, string> {
  const known = knownLabels.get(attributes)
  if (known) return known
  const labels = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [labelName(name), value]))
  knownLabels.set(attributes, labels)
  return labels
}

function labelName(attribute: string): string {
  return attribute.replaceAll('.', '_')
}
