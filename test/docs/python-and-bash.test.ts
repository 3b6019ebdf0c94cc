/** docs/recipes/python-and-bash.md, done with the commands, files and lines that it prints and the package as it is published. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Child } from '../support/processes/child.js'
import { startNpmRegistry } from '../support/servers/npm-registry.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { withoutRepository } from '../support/without-repository.js'
import { codeBlocksOf, ROOT } from './code-blocks.js'

const PAGE = 'docs/recipes/python-and-bash.md'
const BLOCKS = codeBlocksOf(PAGE)
const SHOWN_URL = 'redis://127.0.0.1:6379'
/** What the printed job does, and what a test lets it do when it has to be ended. */
const [SHORT_WORK, LONG_WORK] = ['time.sleep(1)', 'time.sleep(600)']

/** The block of this language, or without one, that has the text. */
function block(language: string, text: string): string {
  const found = BLOCKS.filter((one) => one.language === language && one.lines.join('\n').includes(text))
  assert.equal(found.length, 1, `one block of ${PAGE} has ${text}`)
  return `${found[0]?.lines.join('\n')}\n`
}

describe(PAGE, { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-jobs-'))
  const env = withoutRepository(process.env)
  const bin = join(folder, 'prefix', 'bin')
  let redis: RedisServer
  let first: Awaited<ReturnType<typeof ended>>

  before(async () => {
    redis = await startRedis()
    env['PATH'] = [bin, env['PATH']].join(delimiter)
    await using registry = await startNpmRegistry()
    const commands = block('sh', 'npm install -g').replace(SHOWN_URL, redis.url)
    first = await ended(['bash', '-e', '-c', commands], registry.environmentIn(folder))
    for (const [language, name] of [
      ['python', 'report.py'],
      ['bash', 'report.sh'],
    ] as const)
      writeFileSync(join(folder, name), block(language, `# ${name}`))
  })
  afterEach(async () => {
    await redis.admin.flushall()
    setWork(SHORT_WORK)
  })
  after(async () => {
    await redis.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  function setWork(work: string): void {
    const file = join(folder, 'report.py')
    const text = readFileSync(file, 'utf8')
    assert(text.includes(SHORT_WORK) || text.includes(LONG_WORK))
    writeFileSync(file, text.replace(SHORT_WORK, work).replace(LONG_WORK, work))
  }

  function start([program = '', ...args]: readonly string[], more: NodeJS.ProcessEnv = {}): Child {
    return new Child(spawn(program, args, { cwd: folder, env: { ...env, REDIS_URL: redis.url, ...more } }))
  }

  async function ended(command: readonly string[], more?: NodeJS.ProcessEnv) {
    await using child = start(command, more)
    child.endCommands()
    const { code } = await child.exit
    return { code, stdout: child.stdout, stderr: child.stderr }
  }

  /** Starts a job of long work, and ends the process that was started by SIGTERM. */
  async function terminated(command: readonly string[]) {
    setWork(LONG_WORK)
    await using child = start(command)
    await waitUntil(() => child.stdout.includes('started'), { timeoutMs: 30_000, message: () => child.stderr })
    assert.equal(await redis.admin.exists('lock:report'), 1)
    process.kill(child.pid as number, 'SIGTERM')
    const { code } = await child.exit
    return { code, stdout: child.stdout, stderr: child.stderr }
  }

  const DONE = { code: 0, stdout: 'started\ncleaned up\n', stderr: '' }
  const STOPPED = { code: 143, stdout: 'started\ncleaned up\n', stderr: '' }

  it('its first commands install the program and run a job', () => {
    assert.equal(first.code, 0, first.stderr)
    assert.match(first.stdout, /^one host at a time$/m)
    assert.match(first.stderr, /acquired lock "lock:report"/)
  })

  it('its exit codes say whether the job was run', async () => {
    const script = ['sh', '-c', block('sh', '|| echo')]
    assert.deepEqual(await ended(script), DONE)
    await redis.admin.hset('lock:report', 'somebody-else:1', 1)
    assert.equal((await ended(script)).stdout, 'exit code 75\n')
    assert.equal((await ended(script, { REDIS_URL: 'redis://127.0.0.1:1' })).stdout, 'exit code 69\n')
  })

  it('its jobs in Python and bash clean up when holdfast gets SIGTERM', async () => {
    for (const job of [
      ['python3', 'report.py'],
      ['bash', 'report.sh'],
      ['bash', '-c', 'exec python3 report.py'],
    ]) {
      assert.deepEqual(await terminated(['holdfast', 'run', 'lock:report', '--', ...job]), STOPPED, job.join(' '))
    }
  })

  it('its crontab runs the job on one of two hosts, and the other reports no failure', async () => {
    const lines = block('', '* * *').trimEnd().split('\n')
    const [schedule = '', ...others] = lines.filter((line) => /^\d/.test(line))
    assert.deepEqual(others, [])
    const set = lines.filter((line) => /^\w+=/.test(line)).map((line) => line.split('=', 2))
    assert.deepEqual(
      set.map(([name]) => name),
      ['PATH', 'REDIS_URL'],
    )
    const command = ['sh', '-c', schedule.replace(/^(\S+ +){5}/, '')]
    assert.deepEqual(await ended(command), DONE)
    assert.deepEqual(await ended(command), { code: 0, stdout: '', stderr: '' })
  })

  it('its unit lets systemd end the job by one signal to holdfast', async () => {
    const unit = block('ini', '[Service]')
    const value = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
    assert.deepEqual([value('KillMode'), value('KillSignal')], ['mixed', '']) // SIGTERM by default
    const limitMs = Number(value('TimeoutStopSec')) * 1_000
    assert(limitMs > 10_000, 'longer than --grace')
    assert.deepEqual(await terminated(value('ExecStart').split(' ')), STOPPED)
  })

  it('its image starts holdfast as process 1, from the paths of the image of the program', async () => {
    const lines = block('dockerfile', 'FROM python').split('\n')
    const ofProgram = readFileSync(new URL('Dockerfile', ROOT), 'utf8')
    const [, ...copied] =
      lines
        .find((line) => line.includes('--from=holdfast'))
        ?.split(' ')
        .slice(1) ?? []
    assert.deepEqual(copied, ['/usr/local/bin/node', '/usr/local/bin/holdfast', '/usr/local/bin/'])
    assert.match(ofProgram, /^COPY --from=build \S+ \/usr\/local\/bin\/holdfast$/m)
    assert.match(ofProgram, /\nFROM node:\d+-slim\n(?!.*FROM)/s) // has /usr/local/bin/node
    const command = JSON.parse(/^CMD (.*)$/m.exec(lines.join('\n'))?.[1] ?? '') as string[]
    assert.deepEqual(await terminated(command), STOPPED)
  })
})
