/** What a scrape of Prometheus finds, with prom-client. */
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import type { Client } from '../../src/index.js'
import { METRICS } from '../../src/telemetry/metrics.js'
import { prometheus, prometheusName } from '../../src/telemetry/prometheus.js'
import { readPage } from '../docs/code-blocks.js'
import { Scenario } from './scenario.js'

let scenario: Scenario
let registry: Registry
let stop: () => void

beforeEach(() => {
  scenario = new Scenario()
  registry = new Registry()
  stop = prometheus({ registry })
})

afterEach(async () => {
  stop()
  await scenario.fixture.close()
})

/** The lines of a metric, without comments and buckets. */
async function scrape(prefix: string): Promise<string[]> {
  const text = await registry.metrics()
  return text.split('\n').filter((line) => line.startsWith(prefix) && !line.includes('_bucket'))
}

describe('a scrape', () => {
  it('a scrape has a series for each way to get a lock and each end of a hold', async () => {
    await scenario.handedOff()
    await scenario.timedOut()
    assert.deepEqual(await scrape('holdfast_acquire_duration_seconds_count'), [
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="direct"} 2',
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="handoff"} 1',
      'holdfast_acquire_duration_seconds_count{holdfast_lock_kind="lock",holdfast_acquire_path="wait",error_type="LOCK_WAIT_TIMEOUT"} 1',
    ])
    assert.deepEqual(await scrape('holdfast_holds'), ['holdfast_holds{holdfast_lock_kind="lock"} 0'])
  })

  it('a scrape has the same of an ordered lock as of a fair one, and who finds the queue full apart', async () => {
    const { clock, client, other } = scenario.fixture
    const limit = { maxWaiters: 1 }
    const kinds = {
      'fair lock': (of: Client) => of.getFairLock('f', limit),
      lock: (of: Client) => of.getLock('a', { order: 'fifo', ...limit }),
      'write lock': (of: Client) => of.getReadWriteLock('rw', { order: 'fifo', ...limit }).writeLock(),
    }
    for (const [kind, lockOf] of Object.entries(kinds)) {
      const held = await lockOf(other).lock()
      const waiting = lockOf(client).lock()
      await clock.advance(100)
      assert.deepEqual(await scrape(`holdfast_waiters{holdfast_lock_kind="${kind}"`), [
        `holdfast_waiters{holdfast_lock_kind="${kind}"} 1`,
      ])
      await assert.rejects(clock.until(lockOf(client).lock()), { code: 'LOCK_QUEUE_FULL' })
      await held.unlock()
      await (await clock.until(waiting)).unlock()
      const name = `holdfast_acquire_duration_seconds_count{holdfast_lock_kind="${kind}"`
      assert.deepEqual(await scrape(name), [
        `${name},holdfast_acquire_path="direct"} 1`,
        `${name},holdfast_acquire_path="direct",error_type="LOCK_QUEUE_FULL"} 1`,
        `${name},holdfast_acquire_path="wait"} 1`,
      ])
    }
    assert.deepEqual(await scrape('holdfast_command_failures_total'), [])
  })

  it('a scrape counts on from scrape to scrape', async () => {
    const losses = ['holdfast_hold_losses_total{holdfast_lock_kind="lock",holdfast_loss_reason="forced"}']
    await scenario.lose['forced']?.(scenario.fixture.lock)
    assert.deepEqual(await scrape('holdfast_hold_losses_total'), [`${losses} 1`])
    await scenario.lose['forced']?.(scenario.fixture.lock)
    assert.deepEqual(await scrape('holdfast_hold_losses_total'), [`${losses} 2`])
  })

  it('a scrape has no margin if nothing was renewed since the last one', async () => {
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), [])
    await scenario.renewed()
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), ['holdfast_lease_margin_seconds 2'])
    assert.deepEqual(await scrape('holdfast_lease_margin_seconds'), [])
  })

  it('a scrape has the group of a lock, if there is groupOf', async () => {
    stop()
    stop = prometheus({ registry, groupOf: (name) => `group of ${name}` })
    await scenario.direct()
    assert.deepEqual(await scrape('holdfast_hold_duration_seconds_count'), [
      'holdfast_hold_duration_seconds_count{holdfast_lock_kind="lock",holdfast_lock_group="group of a",holdfast_hold_end="released"} 1',
    ])
  })
})

it('docs/metrics.md says how many series the groups of one kind of lock have in a process', async () => {
  stop()
  stop = prometheus({ registry, groupOf: (name) => name })
  for (let n = 0; n <= 100; n++) {
    const hold = await scenario.fixture.client.getLock(`lock:${n}`).lock()
    await hold.unlock()
  }
  const series = (await registry.metrics()).split('\n').filter((line) => line.includes('holdfast_lock_group='))
  const page = readPage('docs/metrics.md').replace(/\s+/g, ' ')
  const [, each = '', all = ''] = /Each group has about (\d+) series .* have ([\d,]+) in each process/.exec(page) ?? []
  assert.equal(Math.round(series.length / 101), Number(each), `${series.length}`)
  assert.equal(Math.round(series.length / 100) * 100, Number(all.replace(',', '')))
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
