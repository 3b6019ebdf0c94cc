/** Four jobs that did not run as they should: seen by the command, by the page, and by the alerts. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { parse } from 'yaml'
import { serveDashboard } from '../../src/dashboard/serve.js'
import { type Client, connect } from '../../src/index.js'
import { jobKey } from '../../src/wire/keys.js'
import { ROOT } from '../docs/code-blocks.js'
import { endOf, spawnHoldfast } from '../support/processes/holdfast-command.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { open, showsText, texts } from './browser.js'

/** As the package has it: the compiled tests are in build/. */
const PAGE = new URL('../../../dist/dashboard/page/', import.meta.url)
const HOUR_MS = 3_600_000

describe('a job that did not run as it should', () => {
  let redis: RedisServer
  let client: Client

  before(async () => {
    redis = await startRedis()
    client = await connect(redis.url)
    const { admin } = redis

    await run('job:well', '--every', '1h', '--', 'true')

    await run('job:overdue', '--every', '1h', '--', 'true')
    await admin.hincrby(jobKey('job:overdue'), 'startedAt', -4 * HOUR_MS)
    await admin.hincrby(jobKey('job:overdue'), 'succeededAt', -4 * HOUR_MS)

    await run('job:late', '--every', '1h', '--', 'true')
    await admin.hincrby(jobKey('job:late'), 'startedAt', -2 * HOUR_MS)
    await run('job:late', '--every', '1h', '--', 'true')

    await admin
      .multi()
      .hset('job:never', 'somebody-else:1', 1)
      .pexpire('job:never', 10 * HOUR_MS)
      .exec()
    assert.equal((await run('job:never', '--every', '1h', '--wait', '0', '--', 'true')).code, 75)
    await admin.hincrby(jobKey('job:never'), 'knownAt', -2 * HOUR_MS)

    await using killed = holdfast('run', 'job:killed', '--every', '1h', '--', 'sh', '-c', 'echo up; read _')
    await waitUntil(() => killed.stdout.includes('up'), { timeoutMs: 30_000, message: () => killed.stderr })
    await waitUntil(async () => (await admin.hget(jobKey('job:killed'), 'holder')) !== null)
    await killed.stop()
    await admin.del('job:killed') // as when its lease ends
  })

  after(async () => {
    await client.close()
    await redis.stop()
  })

  function holdfast(...args: string[]) {
    return spawnHoldfast(redis.url, args)
  }

  async function run(...args: string[]) {
    return await endOf(holdfast('run', ...args))
  }

  it('a job that was killed, never started, is overdue or late is seen by the command', async () => {
    const { code, stdout, stderr } = await endOf(holdfast('jobs'))
    assert.equal(code, 1, stderr)
    const [, ...rows] = stdout.split('\n')
    assert.match(rows[0] ?? '', /^job:never +never-started +never .*overdue by 1h 0m/)
    assert.match(rows[1] ?? '', /^job:overdue +succeeded .* 1h 0m +overdue by 3h 0m/)
    assert.match(rows[2] ?? '', /^job:killed +killed /)
    assert.match(rows[3] ?? '', /^job:late +succeeded .*started 1h 0m late/)
    assert.match(rows[4] ?? '', /^job:well +succeeded /)
    assert.equal(rows[5], '5 jobs, 3 in need of attention')
  })

  it('a job that was killed, never started, is overdue or late is seen by the page', async () => {
    const where = { host: '127.0.0.1', port: 0, hosts: [], readOnly: true }
    const served = await serveDashboard({ client, ...where, user: 'tester', title: '' }, { pageFolder: PAGE })
    try {
      const { page, complaints } = await open(`${served.url}#token=${served.token}`)
      await page.click('#tab-jobs')
      await showsText(page, '#jobs tr', /never-startedjob:neveroverdue by 1h 0mnever/)
      await showsText(page, '#jobs tr', /succeededjob:overdueoverdue by 3h 0m4h 0m ago/)
      await showsText(page, '#jobs tr', /✗killedjob:killed/)
      await showsText(page, '#jobs tr', /succeededjob:latestarted 1h 0m late/)
      await showsText(page, '.choice output', '5 jobs, 3 in need of attention')
      assert.equal((await texts(page, '#jobs tbody tr[data-tone="disconnected"]')).length, 3)
      assert.equal((await texts(page, '#jobs tbody tr[data-tone="silent"]')).length, 1)
      for (const width of [768, 1_024, 1_100, 1_280]) {
        await page.setViewport({ width, height: 800 })
        const cut = await page.evaluate(`[...document.querySelectorAll('#jobs tbody .col-name')]
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ textContent }) => textContent)`)
        assert.deepEqual(cut, [], `at ${width} px`)
      }
      assert.deepEqual(complaints, [])
    } finally {
      await served.close()
    }
  })

  it('a job that was killed, never started, is overdue or late fires an alert, and one that is well none', async () => {
    const metricsToken = '0123456789abcdef0123456789abcdef'
    const where = { host: '127.0.0.1', port: 0, hosts: [], readOnly: true, metricsToken }
    const served = await serveDashboard({ client, ...where, user: 'tester' }, { pageFolder: PAGE })
    try {
      const reply = await fetch(`${served.url}metrics`, { headers: { authorization: `Bearer ${metricsToken}` } })
      const metrics = await reply.text()
      assert.deepEqual(firing(metrics), [
        'HoldfastJobKilled: job:killed',
        'HoldfastJobLate: job:late',
        'HoldfastJobOverdue: job:never',
        'HoldfastJobOverdue: job:overdue',
      ])
      const [, seconds = ''] =
        /^holdfast_job_last_success_timestamp_seconds\{job_name="job:well"\} ([\d.]+)$/m.exec(metrics) ?? []
      const [now = ''] = await redis.admin.time()
      const agoS = Number(now) - Number(seconds)
      assert.ok(agoS >= -1 && agoS < 600, metrics)
    } finally {
      await served.close()
    }
  })
})

/** The alerts about jobs that fire on these metrics. Their rules compare one series with a number. */
function firing(metrics: string): string[] {
  const { groups } = parse(readFileSync(new URL('prometheus/alerts.yaml', ROOT), 'utf8'))
  const { rules } = groups.find(({ name }: { name: string }) => name === 'holdfast-jobs')
  return rules
    .flatMap(({ alert, expr }: { alert: string; expr: string }) => {
      const [, series = '', operator, limit] = /^(\w+) (>|!=) (\d+)$/.exec(expr) ?? []
      assert.ok(operator, expr)
      const samples = [...metrics.matchAll(new RegExp(`^${series}(?:\\{job_name="(.*)"\\})? (\\S+)$`, 'gm'))]
      assert.ok(samples.length > 0, `${series} is not exported`)
      return samples.flatMap(([, job = 'all', value]) => {
        const fires = operator === '>' ? Number(value) > Number(limit) : Number(value) !== Number(limit)
        return fires ? [`${alert}: ${job}`] : []
      })
    })
    .sort()
}
