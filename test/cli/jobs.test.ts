/** What `holdfast run` records of a job, and what `holdfast jobs` says of it: real processes, a real Redis. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, afterEach, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Totals } from '../../src/dashboard/api.js'
import { metricsOf } from '../../src/dashboard/metrics.js'
import type { JobInfo } from '../../src/fleet/job-info.js'
import { connect } from '../../src/index.js'
import { JOBS_KEY, jobKey } from '../../src/wire/keys.js'
import { expectNothingLeft } from '../support/leak-check.js'
import type { Child } from '../support/processes/child.js'
import { endOf, MAIN, spawnHoldfast } from '../support/processes/holdfast-command.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const NO_TOTALS = { doubts: [] } as unknown as Totals
const UNTIL_STDIN_ENDS = ['--', 'sh', '-c', 'echo up; read _; exit 4']

describe('holdfast jobs', () => {
  let server: RedisServer
  const started: Child[] = []

  before(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map((child) => child.stop()))
    await server.admin.flushall()
    await expectNothingLeft(server)
  })
  after(() => server.stop())

  function holdfast(args: string[], url = server.url): Child {
    const child = spawnHoldfast(url, args)
    started.push(child)
    return child
  }

  async function ended(args: string[], url?: string) {
    return await endOf(holdfast(args, url))
  }

  async function jobs(...args: string[]): Promise<{ code: number | null; jobs: JobInfo[] }> {
    const words = [fileURLToPath(MAIN), 'jobs', '--json', ...args]
    const env = { ...process.env, REDIS_URL: server.url, HOLDFAST_CONFIG: '' }
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', env })
    assert.equal(stderr, '')
    const lines = stdout.split('\n').filter((line) => line !== '')
    return { code: status, jobs: lines.map((line) => JSON.parse(line) as JobInfo) }
  }

  async function isUp(child: Child): Promise<void> {
    await waitUntil(() => child.stdout.includes('up'), { timeoutMs: 30_000, message: () => child.stderr })
  }

  /** Until a job is as it should be. */
  async function becomes(name: string, isSo: (job: JobInfo) => boolean) {
    let last: unknown
    return await waitUntil(
      async () => {
        const { code, jobs: found } = await jobs()
        const job = found.find((one) => one.name === name)
        last = found
        return job && isSo(job) ? { code, job } : undefined
      },
      { timeoutMs: 60_000, message: () => JSON.stringify(last) },
    )
  }

  it('holdfast jobs says when a job started, how it ended, how long it took, and when it last succeeded', async () => {
    const timeOf = async () => Number((await server.admin.time())[0]) * 1_000
    const before = await timeOf()
    assert.equal((await ended(['run', 'report', '--label', 'nightly', '--', 'sleep', '0.2'])).code, 0)
    assert.equal((await ended(['run', 'report', '--label', 'nightly', '--', 'sh', '-c', 'exit 3'])).code, 3)
    const { code, jobs: found } = await jobs()
    const [job] = found
    assert.ok(job && found.length === 1)
    const { name, state, label, exitCode, overdueMs, lateMs, startedAt = 0, succeededAt = 0, ranMs, readAt } = job
    assert.deepEqual([name, state, label, exitCode, overdueMs, lateMs], ['report', 'failed', 'nightly', 3, 0, 0])
    assert.ok(succeededAt >= before + 200 && startedAt >= succeededAt && readAt >= startedAt, JSON.stringify(job))
    assert.ok(ranMs !== undefined && ranMs < readAt - before)
    assert.equal(code, 0, 'it is not expected')
    const { code: named, stdout } = await ended(['jobs', 'report'])
    assert.equal(named, 1, 'it failed')
    assert.match(
      stdout,
      /^JOB +STATE .*\nreport +failed .* ago .* 3 .* ago .*nightly\n1 job, 1 in need of attention\n$/,
    )
  })

  it('holdfast jobs tells a job that runs from one that was killed', async () => {
    const child = holdfast(['run', 'import', ...UNTIL_STDIN_ENDS])
    await isUp(child)
    assert.equal((await becomes('import', ({ state }) => state === 'running')).code, 0)
    await child.stop()
    await server.admin.del('import') // as when its lease ends
    const { job } = await becomes('import', ({ state }) => state === 'killed')
    assert.equal(job.exitCode, undefined)
    assert.equal((await jobs('import')).code, 1)
  })

  it('holdfast jobs tells a permit that is held from one that was lost', async () => {
    const child = holdfast(['run', 'pool', '--permits', '2', ...UNTIL_STDIN_ENDS])
    await isUp(child)
    await becomes('pool', ({ state }) => state === 'running')
    await child.stop()
    await server.admin.del('{pool}:timeout')
    await becomes('pool', ({ state }) => state === 'killed')
  })

  it('holdfast jobs says which job is overdue, and which started late, by a tenth of --every', async () => {
    assert.equal((await ended(['run', 'sync', '--every', '1s', '--', 'true'])).code, 0)
    const { code, job } = await becomes('sync', ({ overdueMs }) => overdueMs > 0)
    assert.deepEqual([code, job.state, job.everyMs, job.lateMs], [1, 'succeeded', 1_000, 0])
    assert.ok(job.overdueMs > 100)
    await ended(['run', 'sync', '--every', '1h', '--', 'true'])
    assert.equal((await becomes('sync', ({ overdueMs, everyMs }) => overdueMs === 0 && everyMs === 3_600_000)).code, 0)
    await server.admin.hincrby(jobKey('sync'), 'startedAt', -2 * 3_600_000)
    await ended(['run', 'sync', '--', 'true']) // by hand: it is still expected
    const late = await becomes('sync', ({ lateMs }) => lateMs >= 3_600_000)
    assert.equal(late.code, 0, 'that is over')
    assert.match((await ended(['jobs'])).stdout, /started 1h 0m late/)
    await ended(['run', 'sync', '--every', '0', '--', 'true'])
    assert.deepEqual((await becomes('sync', () => true)).job.everyMs, undefined)
  })

  it('a run that finds the lock taken is none: the job has never started, and is overdue', async () => {
    await server.admin.multi().hset('taken', 'somebody-else:1', 1).pexpire('taken', 600_000).exec()
    const skipped = ['run', 'taken', '--wait', '0', '--every', '1s', '--', 'true']
    assert.equal((await ended(skipped)).code, 75)
    const { job } = await becomes('taken', ({ overdueMs }) => overdueMs > 0)
    assert.deepEqual([job.state, job.startedAt], ['never-started', undefined])
    assert.equal((await ended(skipped)).code, 75)
    const again = await becomes('taken', () => true)
    assert.ok(again.job.overdueMs >= job.overdueMs && again.code === 1, 'it is not forgotten by another such run')
    assert.equal((await ended(['run', 'other', '--every', '1h', '--', 'true'])).code, 0)
    assert.equal((await jobs('other')).code, 0)
    const named = await jobs('other', 'no-such-job')
    assert.deepEqual(
      [named.code, ...named.jobs.map(({ name, state }) => `${name} ${state}`)],
      [1, 'no-such-job never-started', 'other succeeded'],
    )
  })

  it('a run whose lock was lost has not succeeded', async () => {
    assert.equal((await ended(['run', 'a', '--lease', '300ms', '--on-lost', 'warn', '--', 'sleep', '0.6'])).code, 76)
    const [job] = (await jobs()).jobs
    assert.deepEqual([job?.state, job?.exitCode, job?.succeededAt], ['failed', 76, undefined])
  })

  it('a run is recorded by the clock of Redis, in one hash and one list, which expire', async () => {
    await ended(['run', 'a', '--', 'true'])
    await ended(['run', 'b', '--every', '1000h', '--', 'true'])
    assert.deepEqual((await server.admin.keys('*')).sort(), [jobKey('a'), jobKey('b'), JOBS_KEY])
    const ttls = await Promise.all([jobKey('a'), jobKey('b'), JOBS_KEY].map((key) => server.admin.pttl(key)))
    const days = ttls.map((ms) => Math.ceil(ms / 86_400_000))
    assert.deepEqual(days, [7, 125, 125])
    await using client = await connect(server.url)
    const locks: string[] = []
    for await (const { name } of client.fleet.locks()) locks.push(name)
    assert.deepEqual(locks, [], 'they are no locks')
  })

  it('names of one-off runs push out each other, and no job that is expected', async () => {
    await using client = await connect(server.url)
    const record = async (name: string, everyMs?: number) =>
      await client.fleet.recordJob({ name, holder: `${name}:1`, label: '', everyMs, ranMs: 0, exitCode: 0 }, 10_000)
    await record('nightly', 3_600_000)
    const names = Array.from({ length: 1_001 }, (_, index) => `deploy:${index}`)
    for (let at = 0; at < names.length; at += 100)
      await Promise.all(names.slice(at, at + 100).map((name) => record(name)))
    const found = (await client.fleet.jobs()).map(({ name }) => name)
    assert.equal(found.length, 1_000)
    assert.ok(found.includes('nightly') && found.includes('deploy:1000'))
  })

  it('a job whose record the user may not read is named as hidden, and its exit code is no success', async () => {
    await ended(['run', 'lock:a', '--every', '1h', '--', 'true'])
    await server.admin.call('ACL', 'SETUSER', 'viewer', 'on', '>secret', '+@all', '&*', '~holdfast_jobs')
    const url = server.url.replace('//', '//viewer:secret@')
    for (const named of [[], ['lock:a']]) {
      const { code, stdout } = await ended(['jobs', ...named], url)
      assert.equal(code, 2, stdout)
      assert.match(stdout, /^lock:a +hidden$/m)
      assert.doesNotMatch(stdout, /never/)
    }
    await using client = await connect({ url, inspection: false })
    assert.match(metricsOf([], NO_TOTALS, await client.fleet.jobs()), /^holdfast_fleet_jobs_hidden 1$/m)
    assert.match(metricsOf([], NO_TOTALS, undefined), /^holdfast_fleet_jobs_hidden 1$/m)
    assert.match(metricsOf([], NO_TOTALS, []), /^holdfast_fleet_jobs_hidden 0$/m)
  })

  it('a run that may not be recorded warns once and is otherwise the same; --no-record does not try', async () => {
    await server.admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '+@all', '&*', '~lock:*', '~holdfast_[cgitf]*')
    const url = server.url.replace('//', '//app:secret@')
    const run = await ended(['run', 'lock:a', '--every', '1h', '--', 'sh', '-c', 'echo ran; exit 3'], url)
    assert.deepEqual([run.code, run.stdout], [3, 'ran\n'])
    assert.match(run.stderr, /^holdfast: warning: holdfast jobs may not show this run: .*NOPERM.*--no-record.*\n$/)
    const silent = await ended(['run', 'lock:a', '--no-record', '--', 'sh', '-c', 'echo ran; exit 3'], url)
    assert.deepEqual([silent.code, silent.stdout, silent.stderr], [3, 'ran\n', ''])
    assert.deepEqual(await server.admin.keys('holdfast_job*'), [])
  })

  it('a copy of a start that arrives after the next run changes nothing', async () => {
    await using client = await connect(server.url)
    const record = async (holder: string, exitCode?: number) =>
      await client.fleet.recordJob(
        { name: 'a', holder, label: '', everyMs: undefined, ranMs: exitCode === undefined ? 0 : 1, exitCode },
        10_000,
      )
    await record('a:1')
    await record('a:1', 0)
    await record('a:2')
    await record('a:2', 5)
    const before = await server.admin.hgetall(jobKey('a'))
    await record('a:1')
    await record('a:2')
    await record('a:2', 5)
    assert.deepEqual(await server.admin.hgetall(jobKey('a')), before)
    assert.equal(before['exitCode'], '5')
  })
})
