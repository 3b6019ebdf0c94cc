/** What a scrape of Prometheus finds, with prom-client. */
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { METRICS } from '../../src/telemetry/metrics.js'
import { prometheus, prometheusName } from '../../src/telemetry/prometheus.js'
import { Scene } from './scene.js'

let scene: Scene
let registry: Registry
let stop: () => void

beforeEach(() => {
  scene = new Scene()
  registry = new Registry()
  stop = prometheus({ registry })
})

afterEach(async () => {
  stop()
  await scene.bench.close()
})

/** The lines of a metric, without comments and buckets. */
async function scrape(prefix: string): Promise<string[]> {
  const text = await registry.metrics()
  return text.split('\n').filter((line) => line.startsWith(prefix) && !line.includes('_bucket'))
}

describe('a scrape', () => {
  it('has a series for each way to get a lock and each end of a hold', async () => {
    await scene.handedOff()
    await scene.timedOut()
    assert.deepEqual(await scrape('holdfast_acquire_duration_seconds_count'), [
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="direct"} 2',
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="handoff"} 1',
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="wait",error_type="LOCK_WAIT_TIMEOUT"} 1',
    ])
    assert.deepEqual(await scrape('holdfast_holds'), ['holdfast_holds{holdfast_lock_kind="lock"} 0'])
  })

  it('counts on from scrape to scrape', async () => {
    const losses = ['holdfast_hold_losses_total{holdfast_lock_kind="lock",holdfast_loss_reason="forced"}']
    await scene.lose['forced']?.(scene.bench.lock)
    assert.deepEqual(await scrape('holdfast_hold_losses_total'), [`${losses} 1`])
    await scene.lose['forced']?.(scene.bench.lock)
    assert.deepEqual(await scrape('holdfast_hold_losses_total'), [`${losses} 2`])
  })

  it('has no margin if nothing was renewed since the last one', async () => {
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), [])
    await scene.renewed()
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), ['holdfast_lease_margin_seconds 2'])
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), [])
  })

  it('has the group of a lock, if there is groupOf', async () => {
    stop()
    stop = prometheus({ registry, groupOf: (name) => `group of ${name}` })
    await scene.direct()
    assert.deepEqual(await scrape('holdfast_hold_duration_seconds_count'), [
      'holdfast_hold_duration_seconds_count{holdfast_lock_kind="lock",holdfast_lock_group="group of a",holdfast_hold_end="released"} 1',
    ])
  })
})

it('stop() removes the metrics, so that they can be registered again', async () => {
  assert.equal(registry.getMetricsAsArray().length, Object.keys(METRICS).length)
  for (const metric of Object.values(METRICS)) assert.ok(registry.getSingleMetric(prometheusName(metric)))
  stop()
  assert.equal(registry.getMetricsAsArray().length, 0)
  assert.equal(channel('holdfast:request:grant').hasSubscribers, false)
  stop = prometheus({ registry })
  assert.equal(channel('holdfast:request:grant').hasSubscribers, true)
})
