/** The program as one file, with Node outside and inside, in a folder without node_modules. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { codeBlocksOf, ROOT } from '../docs/code-blocks.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { Child } from '../support/processes/child.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { withoutRepository } from '../support/without-repository.js'

const LIMIT_MS = 300_000
const DOCKERFILE = readFileSync(new URL('Dockerfile', ROOT), 'utf8')

describe('the program as one file', { timeout: LIMIT_MS }, () => {
  const scratch = mkdtempSync(join(tmpdir(), 'holdfast-standalone-'))
  const folder = join(scratch, 'bin')
  /** As a user of /usr/local/bin: without an extension. */
  const file = join(folder, 'holdfast')
  const executable = join(folder, 'holdfast-with-node')
  let redis: RedisServer

  before(async () => {
    const built = await build(join(scratch, 'clone'))
    mkdirSync(folder)
    copyFileSync(join(built, 'holdfast.cjs'), file)
    copyFileSync(join(built, 'holdfast'), executable)
    copyFileSync(join(built, 'licenses.txt'), join(folder, 'licenses.txt'))
    redis = await startRedis({ args: ['--appendonly', 'yes'] })
    writeFileSync(join(folder, 'redisson.yaml'), `singleServerConfig:\n  address: ${redis.url}\n`)
  })
  after(async () => {
    await redis.stop()
    rmSync(scratch, { recursive: true, force: true })
  })

  for (const [title, command] of [
    ['with this Node', [process.execPath, file]],
    ['with Node inside', [executable]],
  ] as const) {
    describe(title, () => {
      function start(...args: string[]): Child {
        const [program = '', ...before] = command
        const env = { ...withoutRepository(process.env), REDIS_URL: redis.url }
        return new Child(spawn(program, [...before, ...args], { cwd: folder, env }))
      }

      async function ended(...args: string[]) {
        await using child = start(...args)
        child.endCommands()
        const { code } = await child.exit
        return { code, stdout: child.stdout, stderr: child.stderr }
      }

      it(`${title}, it prints the version of the package and its help`, async () => {
        const { version } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'))
        assert.deepEqual(await ended('--version'), { code: 0, stdout: `${version}\n`, stderr: '' })
        assert.match((await ended('help', 'run')).stdout, /^Usage: holdfast run /)
      })

      it(`${title}, it runs a job with its lock, which ls and who show, and passes SIGTERM on`, async () => {
        const script = "trap 'kill $!; exit 9' TERM; sleep 600 & echo up; wait"
        await using job = start('run', 'lock:job', '--', 'sh', '-c', script)
        await waitUntil(() => job.stdout.includes('up'), { timeoutMs: 30_000, message: () => job.stderr })
        const [ls, who] = [await ended('ls', 'lock:*'), await ended('who', 'lock:job')]
        assert.deepEqual([ls.code, who.code, ls.stderr + who.stderr], [0, 0, ''])
        assert.match(ls.stdout, /^lock:job .* ● /m)
        assert.match(who.stdout, /^lock:job: lock, lease /)
        process.kill(job.pid as number, 'SIGTERM')
        assert.equal((await job.exit).code, 9)
        assert.equal((await ended('who', 'lock:job')).code, 1)
        await expectNothingLeft(redis)
      })

      it(`${title}, it reads a YAML configuration and checks its Redis`, async () => {
        await using doctor = start('doctor', '--config', 'redisson.yaml', '--json')
        const { checks } = await doctor.nextMessage<{ checks: { id: string; status: string }[] }>()
        assert.deepEqual([(await doctor.exit).code, doctor.stderr], [0, ''])
        assert.equal(checks.find(({ id }) => id === 'trial-lock')?.status, 'ok')
      })

      it(`${title}, it serves the page of the dashboard`, async () => {
        await using ui = start('ui', '--no-open')
        const url = await waitUntil(() => /http:\/\/\S+/.exec(ui.stdout)?.[0], {
          timeoutMs: 30_000,
          message: () => ui.stderr,
        })
        const page = await (await fetch(url)).text()
        const [script = ''] = /assets\/app-\w+\.js/.exec(page) ?? []
        const reply = await fetch(new URL(script, url))
        assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, 'text/javascript; charset=utf-8'])
        assert((await reply.text()).length > 10_000)
      })

      it(`${title}, it says where the demo is, and names an unknown command`, async () => {
        const demo = await ended('demo')
        assert.equal(demo.code, 64)
        assert.match(demo.stderr, /npx -p holdfast -p ioredis holdfast demo/)
        assert.match((await ended('rnu')).stderr, /did you mean run\?/)
      })
    })
  }

  it('it comes with the licences of what is in it', () => {
    const licenses = readFileSync(join(folder, 'licenses.txt'), 'utf8')
    for (const name of ['ioredis', 'yaml', 'preact']) assert.match(licenses, new RegExp(`^${name}$`, 'm'))
  })
})

describe('the Dockerfile', () => {
  it('the Dockerfile builds and copies the file that the tests run, on a Node that the package supports', () => {
    assert.match(DOCKERFILE, /^RUN npm run standalone$/m)
    assert.match(
      DOCKERFILE,
      /^COPY --from=build \/holdfast\/build\/standalone\/holdfast\.cjs \/usr\/local\/bin\/holdfast$/m,
    )
    assert.match(DOCKERFILE, /^USER (?!root)\w+\nENTRYPOINT \["holdfast"\]$/m)
    const images = new Set([...DOCKERFILE.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image))
    assert.equal(images.size, 1)
    const { engines } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'))
    const oldest = Number(/\d+/.exec(engines.node)?.[0])
    assert(Number(/^node:(\d+)-slim$/.exec([...images].join())?.[1]) > oldest)
  })
})

/**
 * Builds both by the command of the page, in a folder with what `COPY . .` of the Dockerfile copies.
 * @returns the folder with the results
 */
async function build(clone: string): Promise<string> {
  const ignored = readFileSync(new URL('.dockerignore', ROOT), 'utf8').trim().split('\n')
  for (const name of readdirSync(ROOT))
    if (!ignored.includes(name)) cpSync(new URL(name, ROOT), join(clone, name), { recursive: true })
  // As after `npm ci`, and the Node that is fetched for the executable.
  for (const name of ['node_modules', '.cache']) symlinkSync(fileURLToPath(new URL(name, ROOT)), join(clone, name))
  const printed = codeBlocksOf('docs/recipes/python-and-bash.md').find(({ lines }) => lines[0] === 'npm ci')
  const command = printed?.lines.at(-1) ?? ''
  assert.match(command, /^npm run standalone -- /)
  await promisify(execFile)('sh', ['-c', command], { cwd: clone })
  return join(clone, 'build', 'standalone')
}
