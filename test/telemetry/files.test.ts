/** The page, the dashboard and the alerts name the metrics that there are. */
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { parse } from 'yaml'
import { metricsOf } from '../../src/dashboard/metrics.js'
import { totalsOf } from '../../src/dashboard/totals.js'
import { METRICS } from '../../src/telemetry/metrics.js'
import { prometheus, prometheusName } from '../../src/telemetry/prometheus.js'
import { ROOT, readPage } from '../docs/code-blocks.js'
import { heldLock } from '../support/dashboard.js'
import { Scenario } from './scenario.js'

/** Every metric, as the table of docs/metrics.md has it. */
const ROWS = Object.values(METRICS).map((metric) => {
  const types = { upDownCounter: 'up-down counter', histogram: 'histogram', gauge: 'gauge', counter: 'counter' }
  const attributes = metric.attributes.map((name) => `\`${name}\``).join(', ')
  const { name, type, unit, description } = metric
  return `| \`${name}\`: ${description} | \`${prometheusName(metric)}\` | ${types[type]}, ${unit} | ${attributes} |`
})

describe('docs/metrics.md', () => {
  it('docs/metrics.md has a row for every metric, with Prometheus name, type, unit and attributes', () => {
    const rows = readPage('docs/metrics.md')
      .split('\n')
      .filter((line) => line.startsWith('| `holdfast.'))
    assert.deepEqual(rows, ROWS)
  })
})

/** What the dashboard exports. */
function fleetMetrics(): string {
  const locks = [{ info: heldLock('lock:a'), oldestMs: 1_000 }]
  return metricsOf(
    locks,
    totalsOf(locks, { deadlocks: 1, newHolds: 0, losses: 0, silentClients: 0, isTruncated: false, doubts: [] }),
    [{ name: 'job:a', state: 'failed', everyMs: 1_000, overdueMs: 0, lateMs: 0, exitCode: 1, readAt: 0 }],
  )
}

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: { readonly summary: string }
}

function alerts(): readonly Rule[] {
  const { groups } = parse(readFileSync(new URL('prometheus/alerts.yaml', ROOT), 'utf8'))
  return groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
}

describe('docs/operating.md', () => {
  it('docs/operating.md says of every alert what to do', () => {
    const page = readPage('docs/operating.md')
    for (const { alert } of alerts()) assert.match(page, new RegExp(`^\\|[^|]*\`${alert}\`[^|]*\\| \\S`, 'm'))
  })
})

describe('a query', () => {
  const scenario = new Scenario()
  const registry = new Registry()
  const names = new Set<string>()
  const labels = new Map<string, Set<string>>()
  let stop: () => void

  before(async () => {
    stop = prometheus({ registry })
    for (const step of ['waited', 'handedOff', 'timedOut', 'failed', 'renewed'] as const) await scenario[step]()
    await scenario.lose['forced']?.(scenario.fixture.lock)
    channel('holdfast:warning').publish({ clientId: '', warning: new Error('publishing is refused') })
    for (const line of `${await registry.metrics()}\n${fleetMetrics()}`.split('\n')) {
      const [, name, inside = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? []
      if (!name) continue
      names.add(name)
      for (const [, label = '', value = ''] of inside.matchAll(/(\w+)="([^"]*)"/g)) {
        labels.set(label, (labels.get(label) ?? new Set()).add(value))
      }
    }
  })
  after(async () => {
    stop()
    await scenario.fixture.close()
  })

  /** Fails if a query names a series or label that no exporter has. */
  function check(query: string): void {
    const known = new Set([...names, ...labels.keys(), 'job', 'instance'])
    const named = query.match(/\b(?:holdfast|error)_\w+/g) ?? []
    const unknown = named.filter((name) => !known.has(name))
    assert.ok(named.length > 0 && unknown.length === 0, `${query}\nnames ${unknown.join()}, which is not exported`)
    for (const [, by = ''] of query.matchAll(/\b(?:by|on) \(([^)]*)\)/g)) {
      assert.deepEqual(
        by.split(/, ?/).filter((label) => !known.has(label)),
        [],
        query,
      )
    }
  }

  it('a query of grafana/holdfast.json uses series that are exported', () => {
    const { panels } = JSON.parse(readFileSync(new URL('grafana/holdfast.json', ROOT), 'utf8'))
    const queries = panels.flatMap(({ targets }: { targets: { expr: string }[] }) => targets.map(({ expr }) => expr))
    assert.ok(queries.length >= Object.keys(METRICS).length)
    for (const query of queries) check(query)
    for (const metric of Object.values(METRICS)) {
      assert.ok(queries.join('\n').includes(prometheusName(metric)), `no panel shows ${metric.name}`)
    }
    assert.ok(
      queries.some((query: string) => query.includes('holdfast_fleet_deadlocks')),
      'no panel shows deadlocks',
    )
  })

  it('a query of prometheus/alerts.yaml uses series that are exported', () => {
    const rules = alerts()
    assert.ok(rules.length >= 5)
    for (const { expr, annotations } of rules) {
      check(expr)
      for (const [, label = ''] of annotations.summary.matchAll(/\$labels\.(\w+)/g)) {
        assert.ok(labels.has(label), `${annotations.summary} names a label that is not exported`)
      }
    }
  })
})
