import assert from 'node:assert/strict'
import { after, afterEach, before, it } from 'node:test'
import { Injectable } from '@nestjs/common'
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule'
import { HoldfastModule, Locked } from '../../src/nestjs/index.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { type RunningApp, startApp } from './app.js'

let server: RedisServer

before(async () => {
  server = await startRedis()
})

after(async () => {
  await server.stop()
})

afterEach(async () => {
  await expectNothingLeft(server, { keys: /^every-second$/ })
})

const NEVER = '0 0 1 1 *' // New Year: the tests fire it themselves
const EVERY_SECOND = '* * * * * *'

@Injectable()
class Jobs {
  reports = 0
  cleanings = 0
  ticks = 0
  works = 0

  @Cron(NEVER, { name: 'report' })
  @Locked('nightly-report', { onBusy: 'skip', atLeastMs: 60_000 })
  async report(): Promise<void> {
    this.reports++
  }

  @Locked('cleaning', { onBusy: 'skip', atLeastMs: 60_000 })
  @Cron(NEVER, { name: 'cleaning' })
  async clean(): Promise<void> {
    this.cleanings++
  }

  @Cron(EVERY_SECOND)
  tick(): void {
    this.ticks++
  }

  @Cron(EVERY_SECOND)
  @Locked('every-second', { onBusy: 'skip', atLeastMs: 700 })
  async work(): Promise<void> {
    this.works++
  }
}

async function startInstances(): Promise<RunningApp[]> {
  const start = () =>
    startApp({ imports: [HoldfastModule.forRoot(server.url), ScheduleModule.forRoot()], providers: [Jobs] })
  return [await start(), await start()]
}

const sum = (instances: RunningApp[], count: (jobs: Jobs) => number): number =>
  instances.map(({ app }) => count(app.get(Jobs))).reduce((a, b) => a + b)

for (const [name, key, count] of [
  ['report', 'nightly-report', (jobs: Jobs) => jobs.reports],
  ['cleaning', 'cleaning', (jobs: Jobs) => jobs.cleanings],
] as const) {
  it(`a cron job fired on two instances runs on one, even if the other is late: ${name}`, async () => {
    const instances = await startInstances()
    const fire = async ({ app }: RunningApp) => await app.get(SchedulerRegistry).getCronJob(name).fireOnTick()
    const evaluated = async () =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await server.admin.info('commandstats'))?.[1] ?? 0)
    await Promise.all(instances.map(fire))
    await waitUntil(() => sum(instances, count) > 0)
    // Late: the first has ended long ago. Its lock stays taken, for a minute in all.
    const before = await evaluated()
    for (const instance of instances) await fire(instance)
    await waitUntil(async () => (await evaluated()) >= before + 2)
    assert.equal(sum(instances, count), 1)
    assert.ok((await server.admin.pttl(key)) > 40_000)
    await server.admin.del(key)
    for (const instance of instances) await fire(instance)
    await waitUntil(() => sum(instances, count) === 2)
    for (const { app } of instances) await app.close()
    await server.admin.del(key)
  })
}

it('a cron job of every second runs once a second on two instances', async () => {
  const instances = await startInstances()
  const ticks = () => Math.max(...instances.map(({ app }) => app.get(Jobs).ticks))
  await waitUntil(() => ticks() >= 3 && sum(instances, ({ works }) => works) >= 2, { timeoutMs: 30_000 })
  const works = sum(instances, (jobs) => jobs.works)
  assert.ok(works <= ticks(), `${works} in ${ticks()} ticks`)
  for (const { app } of instances) await app.close()
})
