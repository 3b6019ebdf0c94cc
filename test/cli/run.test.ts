/** `holdfast run` as a shell user sees it: its exit codes, its stderr, and what it leaves in Redis. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { measureLateness } from '../support/lateness.js'
import { expectNothingLeft } from '../support/leak-check.js'
import type { Child } from '../support/processes/child.js'
import { endOf, MAIN, spawnHoldfast } from '../support/processes/holdfast-command.js'
import { tieToThisProcess } from '../support/processes/process-exit.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

/** A program that prints `up`, then each signal that it receives, and exits with 9 on the signals in `endsOn`. */
function listener(...endsOn: NodeJS.Signals[]): string[] {
  const program = `
    for (const name of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2']) process.on(name, () => {
      console.log(name)
      if (${JSON.stringify(endsOn)}.includes(name)) process.exit(9)
    })
    setTimeout(() => {}, 60_000)
    console.log('up')`
  return [process.execPath, '-e', program]
}

/** A shell that prints `up`, and exits with 4 when its stdin ends. */
const UNTIL_STDIN_ENDS = ['sh', '-c', 'echo up; read _; exit 4']

describe('holdfast run', () => {
  let server: RedisServer
  const started: Child[] = []

  before(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map((child) => child.stop()))
    await server.admin.del('taken')
    await expectNothingLeft(server)
  })
  after(() => server.stop())

  function holdfast(args: string[], env: Record<string, string> = {}): Child {
    const child = spawnHoldfast(server.url, args, env)
    started.push(child)
    return child
  }

  /** Runs it to its end. */
  async function ended(args: string[], env?: Record<string, string>) {
    const startedAt = performance.now()
    return { ...(await endOf(holdfast(args, env))), tookMs: performance.now() - startedAt }
  }

  async function prints(child: Child, text: string | RegExp): Promise<void> {
    const isPrinted = () => (child.stdout + child.stderr).search(text) >= 0
    await waitUntil(isPrinted, { timeoutMs: 30_000, message: () => `${text} in:\n${child.stdout}${child.stderr}` })
  }

  function kill(child: Child, signal: NodeJS.Signals): void {
    assert(child.pid !== undefined)
    process.kill(child.pid, signal)
  }

  async function exitCode(child: Child): Promise<number | null> {
    return (await child.exit).code
  }

  /** Makes another client, perhaps in Java, hold the lock `taken`. */
  async function take(): Promise<void> {
    await server.admin.multi().hset('taken', 'somebody-else:1', 1).pexpire('taken', 60_000).exec()
  }

  describe('the program', () => {
    it('the program determines the exit code', async () => {
      for (const code of [0, 1, 75, 255]) {
        const run = await ended(['run', 'a', '--', 'sh', '-c', `exit ${code}`])
        assert.deepEqual([run.code, run.stdout, run.stderr], [code, '', ''])
      }
    })

    it('a program that a signal ends gives 128 + its number', async () => {
      assert.equal((await ended(['run', 'a', '--', 'sh', '-c', 'kill -TERM $$'])).code, 143)
      assert.equal((await ended(['run', 'a', '--', 'sh', '-c', 'kill -KILL $$'])).code, 137)
    })

    it('a program gives 127 if it is missing, and 126 if it cannot be executed', async () => {
      const missing = await ended(['run', 'a', '--', 'no-such-program'])
      assert.deepEqual([missing.code, missing.stderr], [127, 'holdfast: no-such-program: command not found\n'])
      for (const program of ['/', '/etc/passwd', '/etc/passwd/no-folder']) {
        const run = await ended(['run', 'a', '--', program])
        assert.equal(run.code, 126)
        assert.match(run.stderr, /^holdfast: \/\S*: cannot be executed: .+\n$/)
      }
    })

    it('the program inherits stdin, stdout and stderr', async () => {
      const child = holdfast(['run', 'a', '--', 'sh', '-c', 'cat; echo out; echo err >&2'])
      child.send({ from: 'stdin' })
      child.endCommands()
      assert.deepEqual(await child.nextMessage(), { from: 'stdin' })
      assert.equal(await exitCode(child), 0)
      assert.deepEqual([child.stdout, child.stderr], ['out\n', 'err\n'])
    })

    it('the program gets its arguments unchanged, with and without --', async () => {
      const args = ['--wait', '-x', '--', '--help', '']
      const show = ['sh', '-c', 'for arg; do echo "<$arg>"; done', 'sh']
      const shown = args.map((arg) => `<${arg}>\n`).join('')
      for (const ours of [
        ['run', 'a', '--wait', '5s', '--'],
        ['run', '--wait=5s', 'a'],
        ['run', 'a', '--wait', '5s'],
      ]) {
        const run = await ended([...ours, ...show, ...args])
        assert.deepEqual([run.code, run.stdout, run.stderr], [0, shown, ''])
      }
    })
  })

  describe('the lock', () => {
    it('the lock is held while the program runs, by the holder in its environment, and then released', async () => {
      const child = holdfast(['run', 'a', '--', 'sh', '-c', 'echo "$HOLDFAST_LOCK $HOLDFAST_HOLDER"; read _; exit 4'])
      await prints(child, /\n/)
      const [holder = ''] = Object.keys(await server.admin.hgetall('a'))
      assert.match(holder, /^[0-9a-f-]{36}:\d+$/)
      assert.equal(child.stdout, `a ${holder}\n`)
      const ttl = await server.admin.pttl('a')
      assert(ttl > 20_000 && ttl <= 30_000, `the watchdog's lease, not ${ttl}`)
      child.endCommands()
      assert.equal(await exitCode(child), 4)
      assert.equal(await server.admin.exists('a'), 0)
    })

    it('the lock is held with the lease of --lease', async () => {
      const child = holdfast(['run', 'a', '--lease', '2m', '--', ...UNTIL_STDIN_ENDS])
      await prints(child, 'up')
      const ttl = await server.admin.pttl('a')
      assert(ttl > 110_000 && ttl <= 120_000, `not ${ttl}`)
      child.endCommands()
      assert.equal(await exitCode(child), 4)
    })

    it('the lock is released when the program ends, even if its children still run', async () => {
      const run = await ended(['run', 'a', '--', 'sh', '-c', 'sleep 60 >/dev/null 2>&1 </dev/null & echo $!'])
      process.kill(Number(run.stdout))
      assert.equal(run.code, 0)
      assert(run.tookMs < 30_000, `took ${run.tookMs} ms`)
      assert.equal(await server.admin.exists('a'), 0)
    })

    it('a lock that another holds gives the conflict exit code after the wait, without the program', async () => {
      await take()
      const echo = ['--', 'echo', 'ran']
      const atOnce = await ended(['run', 'taken', '--wait', '0', ...echo])
      assert.deepEqual([atOnce.code, atOnce.stdout, atOnce.stderr], [75, '', ''])
      const waited = await ended(['run', 'taken', '--wait', '600ms', '--conflict-exit-code', '0', ...echo])
      assert.deepEqual([waited.code, waited.stdout, waited.stderr], [0, '', ''])
      assert(waited.tookMs > 600, `took ${waited.tookMs} ms`)
    })

    it('the program is run once in the time of --at-least across machines, although it takes no time', async () => {
      const once = ['run', 'nightly', '--at-least', '10m', '--', 'echo', 'ran']
      const runs = [await ended(once), ...(await Promise.all([ended(once), ended(once), ended(once)]))]
      assert.deepEqual(
        runs.map(({ code, stdout, stderr }) => [code, stdout, stderr]),
        [[0, 'ran\n', ''], ...Array(3).fill([75, '', ''])],
      )
      const leftMs = await server.admin.pttl('nightly')
      assert(leftMs > 500_000 && leftMs <= 600_000, `${leftMs} ms`)
      await server.admin.del('nightly')
    })

    it('the lock stays taken for --at-least after a program that failed, and no longer', async () => {
      const failed = await ended(['run', 'nightly', '--at-least', '2s', '--verbose', '--', 'sh', '-c', 'exit 3'])
      assert.equal(failed.code, 3)
      assert.match(failed.stderr, /: \S+ ended with 3 at \S+ after \S+, kept until \d\d:\d\d:\d\d by --at-least\n$/)
      const leftMs = await server.admin.pttl('nightly')
      assert(leftMs <= 2_000, `${leftMs} ms`)
      const next = await ended(['run', 'nightly', '--at-least', '10ms', '--wait', '10s', '--', 'echo', 'ran'])
      assert.deepEqual([next.code, next.stdout], [0, 'ran\n'])
    })

    it('the lock is not kept for --at-least if a signal ended the wait before the program', async () => {
      await take()
      const child = holdfast(['run', 'taken', '--at-least', '10m', '--wait', '1m', '--verbose', '--', 'echo', 'ran'])
      await prints(child, 'waiting for lock "taken"')
      kill(child, 'SIGTERM')
      assert.equal(await exitCode(child), 143)
      await server.admin.del('taken')
      assert.equal(await server.admin.exists('taken'), 0)
    })

    it('the lock is waited for, and --verbose names its holder', async () => {
      await take()
      const child = holdfast(['run', 'taken', '--verbose', '--', 'sh', '-c', 'exit 3'])
      await prints(child, 'waiting for lock "taken", held by somebody-else:1\n')
      await server.admin.multi().del('taken').publish('redisson_lock__channel:{taken}', '0').exec()
      assert.equal(await exitCode(child), 3)
      assert.match(
        child.stderr,
        /: (\d\d:\d\d:\d\d) acquired lock "taken" as \S+ after \d+ ms\nholdfast: \S+ ended with 3 at \S+ after \S+, released lock "taken"\n$/,
      )
    })

    it('--log json prints lines of JSON: who it is with the grant, how it ended, and what went wrong', async () => {
      const args = ['run', 'nightly', '--log', 'json', '--at-least', '10m', '--', 'sh', '-c', 'exit 3']
      const first = await ended(args)
      const linesOf = ({ stderr }: { stderr: string }) =>
        stderr
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Record<string, unknown>)
      const [acquired, end] = linesOf(first)
      assert.ok(acquired && end)
      assert.match(String(acquired['holder']), /^[\da-f-]{36}:\d+$/)
      assert.deepEqual([end['level'], end['lock'], end['exitCode'], first.code], ['info', 'nightly', 3, 3])
      const keptMs = Date.parse(String(end['keptUntil'])) - Date.parse(String(acquired['time']))
      assert.ok(keptMs <= 600_000, `${keptMs} ms`)
      const [second] = linesOf(await ended(args))
      assert.match(String(second?.['message']), /was not acquired in time/)
      await server.admin.del('nightly')
      const failed = await ended(args, { REDIS_URL: `redis://127.0.0.1:${await freePort()}` })
      assert.deepEqual([failed.code, linesOf(failed)[0]?.['level']], [69, 'error'])
    })

    it('holdfast run runs only one of several programs at a time', async () => {
      const dir = mkdtempSync(join(tmpdir(), 'holdfast-run-'))
      try {
        const script = 'echo start >> log; sleep 0.05; echo end >> log'
        const command = ['run', 'a', '--', 'sh', '-c', `cd "${dir}"; ${script}`]
        const runs = await Promise.all(Array.from({ length: 6 }, () => ended(command)))
        assert.deepEqual(
          runs.map(({ code }) => code),
          [0, 0, 0, 0, 0, 0],
        )
        assert.equal(readFileSync(join(dir, 'log'), 'utf8'), 'start\nend\n'.repeat(6))
      } finally {
        rmSync(dir, { recursive: true })
      }
    })
  })

  describe('a loss', () => {
    it('a loss sends the program SIGTERM and gives exit code 76', async () => {
      const child = holdfast(['run', 'a', '--lease', '3s', '--', ...listener('SIGTERM')])
      assert.equal(await exitCode(child), 76)
      assert.equal(child.stdout, 'up\nSIGTERM\n')
      assert.match(
        child.stderr,
        /^holdfast: Lock "a" \(label ".*"\) is no longer held by \S+: its fixed lease of 3000 ms \(leaseTimeMs\) ended.*\n/,
      )
      assert.match(child.stderr, /sending SIGTERM to process \d+, and SIGKILL in 10000 ms\n$/)
    })

    it('a loss sends SIGKILL after the grace period if the program has not ended', async () => {
      const child = holdfast(['run', 'a', '--lease', '3s', '--grace', '300ms', '--', ...listener()])
      await prints(child, 'SIGTERM')
      const startedAt = performance.now()
      assert.equal(await exitCode(child), 76)
      const tookMs = performance.now() - startedAt
      assert(tookMs > 150 && tookMs < 5_000, `took ${tookMs} ms`)
      assert.match(child.stderr, /did not end on SIGTERM: sending SIGKILL/)
    })

    it('a loss is noticed at the next renewal if the lock was deleted in Redis', async () => {
      const child = holdfast(['run', 'a', '--', ...listener('SIGTERM')])
      await prints(child, 'up')
      await server.admin.del('a')
      await server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal') // it makes an attempt right after the reconnect
      assert.equal(await exitCode(child), 76)
      assert.equal(child.stdout, 'up\nSIGTERM\n')
      assert.match(child.stderr, /Redis no longer knows the holder/)
    })

    it('a loss sends SIGKILL immediately with --on-lost kill', async () => {
      const child = holdfast(['run', 'a', '--lease', '3s', '--on-lost', 'kill', '--', ...listener()])
      assert.equal(await exitCode(child), 76)
      assert.equal(child.stdout, 'up\n')
      assert.match(child.stderr, /sending SIGKILL to process \d+\n$/)
    })

    it('a loss lets the program continue with --on-lost warn, and still gives exit code 76', async () => {
      const child = holdfast(['run', 'a', '--lease', '300ms', '--on-lost', 'warn', '--', ...UNTIL_STDIN_ENDS])
      await prints(child, 'the program continues without it')
      child.endCommands()
      assert.equal(await exitCode(child), 76)
    })

    it('a loss that is noticed only at the release gives exit code 76', async () => {
      const child = holdfast(['run', 'a', '--', ...UNTIL_STDIN_ENDS])
      await prints(child, 'up')
      await server.admin.del('a')
      child.endCommands()
      assert.equal(await exitCode(child), 76)
      assert.match(child.stderr, /^holdfast: warning: Lock "a" is no longer held .*\n$/)
    })
  })

  describe('a signal', () => {
    it('a signal ends the wait at once with 128 + its number, and leaves nothing behind', async () => {
      await take()
      for (const [signal, code] of [
        ['SIGTERM', 143],
        ['SIGINT', 130],
        ['SIGHUP', 129],
      ] as const) {
        const child = holdfast(['run', 'taken', '--verbose', '--', 'echo', 'ran'])
        await prints(child, 'waiting for lock')
        const startedAt = performance.now()
        kill(child, signal)
        assert.equal(await exitCode(child), code)
        assert(performance.now() - startedAt < 2_000)
        assert.equal(child.stdout, '')
        assert.match(child.stderr, new RegExp(`stopped by ${signal} before the program was run\n$`))
        assert.deepEqual(await server.admin.hgetall('taken'), { 'somebody-else:1': '1' })
        assert.deepEqual(await server.admin.pubsub('CHANNELS'), [])
      }
    })

    it('a signal is forwarded to the program, whose exit code is used', async () => {
      const child = holdfast(['run', 'a', '--', ...listener('SIGTERM')])
      await prints(child, 'up')
      for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGTERM'] as const) {
        assert.equal(await server.admin.exists('a'), 1)
        kill(child, signal)
        await prints(child, signal)
      }
      assert.equal(await exitCode(child), 9)
      assert.deepEqual(child.stderr, '')
    })

    it('a signal that the program does not handle ends it, with exit code 128 + its number', async () => {
      const child = holdfast(['run', 'a', '--', 'sh', '-c', 'echo up; exec sleep 60'])
      await prints(child, 'up')
      kill(child, 'SIGTERM')
      assert.equal(await exitCode(child), 143)
    })

    it('a signal from the terminal arrives once', async () => {
      const script = spawnSync('script', ['--version'], { encoding: 'utf8' })
      assert(script.stdout?.includes('util-linux'), 'this test needs `script` of util-linux (Debian: bsdutils)')
      const words = [process.execPath, fileURLToPath(MAIN), 'run', 'a', '--', ...listener('SIGQUIT')]
      const line = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
      // exec: otherwise the shell gets the signals of the terminal too, and its end hangs up on the rest.
      const env = { ...process.env, REDIS_URL: server.url, SHELL: '/bin/sh' }
      const terminal = spawn('script', ['-qec', `exec ${line}`, '/dev/null'], { env })
      tieToThisProcess(terminal)
      let screen = ''
      terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
        screen += text
      })
      const ended = new Promise<number | null>((resolve) => terminal.once('close', resolve))
      const shows = (text: string) =>
        waitUntil(() => screen.includes(text), { timeoutMs: 10_000, message: () => screen })
      await shows('up')
      terminal.stdin.write('\x03')
      await shows('SIGINT')
      terminal.stdin.write('\x1c')
      assert.equal(await ended, 9, screen)
      assert.deepEqual(screen.match(/SIG\w+/g), ['SIGINT', 'SIGQUIT'])
    })
  })

  describe('Redis', () => {
    it('a Redis that is unreachable gives 69 promptly, with its address', async () => {
      const port = await freePort()
      const lateness = measureLateness()
      const run = await ended(['run', 'a', '--', 'echo', 'ran'], { REDIS_URL: `redis://:geheim@127.0.0.1:${port}` })
      assert.deepEqual([run.code, run.stdout], [69, ''])
      assert.match(run.stderr, new RegExp(`^holdfast: cannot reach Redis at 127.0.0.1:${port}: .*ECONNREFUSED.*\n$`))
      assert.doesNotMatch(run.stderr, /geheim/)
      const mostMs = 5_000 + lateness()
      assert(run.tookMs < mostMs, `took ${run.tookMs} ms`)
    })

    it('a Redis that rejects the password gives 69, without printing the password', async () => {
      await using guarded = await startRedis()
      await guarded.admin.config('SET', 'requirepass', 'richtig')
      const url = (password: string) => guarded.url.replace('//', `//:${password}@`)
      const wrong = await ended(['run', 'a', '--redis', url('geheim'), '--', 'true'], { DEBUG: '1' })
      assert.equal(wrong.code, 69)
      assert.match(wrong.stderr, new RegExp(`^holdfast: rejected by Redis at 127.0.0.1:${guarded.port}: WRONGPASS`))
      assert.doesNotMatch(wrong.stderr, /geheim/)
      const without = await ended(['run', 'a', '--', 'true'], { REDIS_URL: guarded.url })
      assert.equal(without.code, 69)
      assert.match(without.stderr, /NOAUTH/)
      const right = await ended(['run', 'a', '--', 'true'], { REDIS_URL: url('richtig') })
      assert.deepEqual([right.code, right.stderr], [0, ''])
    })

    it('a Redis that repeats the password in its error reply does not get it printed', async () => {
      await using odd = await startRedis({ args: ['--rename-command', 'AUTH', '', '--rename-command', 'HELLO', ''] })
      const run = await ended(['run', 'a', '--redis', odd.url.replace('//', '//:geheim@'), '--', 'true'])
      assert.equal(run.code, 69)
      assert.doesNotMatch(run.stderr, /geheim/)
    })

    it('a Redis that replies with an error to the lock gives 69', async () => {
      await server.admin.set('taken', 'a string, not a lock')
      const run = await ended(['run', 'taken', '--', 'echo', 'ran'])
      assert.deepEqual([run.code, run.stdout], [69, ''])
      assert.match(run.stderr, /^holdfast: The name "taken" is in use: Redis has a string there/)
    })

    it('a Redis whose user lacks a right gives 77, and the command that prints the rights for this prefix', async () => {
      await using guarded = await startRedis()
      await guarded.admin.call('ACL', 'SETUSER', 'app', 'on', '>richtig', '+@all', '&*', '~other:*')
      const url = guarded.url.replace('//', '//app:richtig@')
      const denied = await ended(['run', 'lock:nightly', '--redis', url, '--', 'echo', 'ran'])
      assert.deepEqual([denied.code, denied.stdout], [77, ''])
      assert.match(denied.stderr, /holdfast doctor --acl --prefix lock:\n/)
      const allowed = await ended(['run', 'other:nightly', '--redis', url, '--', 'echo', 'ran'])
      assert.deepEqual([allowed.code, allowed.stdout], [0, 'ran\n'])
    })

    it('a wait for a Redis that does not reply can be interrupted by a signal', async () => {
      const silent = createServer().listen(0, '127.0.0.1')
      const connected = once(silent, 'connection')
      await once(silent, 'listening')
      const { port } = silent.address() as AddressInfo
      const child = holdfast(['run', 'a', '--', 'echo', 'ran'], { REDIS_URL: `redis://127.0.0.1:${port}` })
      const [socket] = (await connected) as [Socket]
      kill(child, 'SIGTERM')
      assert.equal(await exitCode(child), 143)
      socket.destroy()
      silent.close()
    })

    it('a Redis that is lost while the program runs makes it lose the lock when the lease ends', async () => {
      await using mortal = await startRedis()
      const args = ['run', 'a', '--lease', '2s', '--', ...listener('SIGTERM')]
      const child = holdfast(args, { REDIS_URL: mortal.url })
      await prints(child, 'up')
      await mortal.kill()
      await prints(child, 'SIGTERM')
      assert.equal(await exitCode(child), 76)
      assert.match(child.stderr, /its fixed lease of 2000 ms \(leaseTimeMs\) ended/)
    })

    it("a Redis that is unreachable at the release gives a warning and the program's exit code", async () => {
      await using mortal = await startRedis()
      const child = holdfast(['run', 'a', '--', ...UNTIL_STDIN_ENDS], { REDIS_URL: mortal.url })
      await prints(child, 'up')
      await mortal.kill()
      child.endCommands()
      assert.equal(await exitCode(child), 4)
      assert.match(child.stderr, /^holdfast: warning: Redis did not reply to "unlock" for "a"/)
    })
  })

  it('holdfast run connects by a Redisson configuration', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-run-'))
    try {
      const config = join(directory, 'redisson.yaml')
      writeFileSync(config, `singleServerConfig:\n  address: "${server.url}"\n`)
      const nowhere = { REDIS_URL: 'redis://127.0.0.1:1' }
      const command = ['--', 'sh', '-c', 'echo "$HOLDFAST_LOCK"']
      assert.equal((await ended(['run', 'a', '--config', config, ...command], nowhere)).stdout, 'a\n')
      assert.equal((await ended(['run', 'a', ...command], { ...nowhere, HOLDFAST_CONFIG: config })).stdout, 'a\n')
      const missing = await ended(['run', 'a', '--config', join(directory, 'none.yaml'), ...command])
      assert.equal(missing.code, 64)
      assert.match(missing.stderr, /none\.yaml/)
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  describe('holdfast run with --permits', () => {
    const copies = ['run', 'pool', '--permits', '2', '--verbose']

    afterEach(async () => {
      await Promise.all(started.splice(0).map((child) => child.stop()))
      await waitUntil(async () => (await server.admin.zcard('{pool}:timeout')) === 0, { timeoutMs: 40_000 })
      assert.equal(await server.admin.get('pool'), '2')
      await server.admin.del('pool')
    })

    it('holdfast run --permits runs that many copies at once, and others wait with a message', async () => {
      const [first, second] = [
        holdfast([...copies, '--', ...UNTIL_STDIN_ENDS]),
        holdfast([...copies, '--', ...UNTIL_STDIN_ENDS]),
      ]
      await Promise.all([prints(first, 'up'), prints(second, 'up')])
      const third = holdfast([...copies, '--', 'sh', '-c', 'echo "$HOLDFAST_LOCK $HOLDFAST_HOLDER"'])
      await prints(third, 'waiting for one of 2 permits of "pool", 2 in use\n')
      first.endCommands()
      assert.equal(await exitCode(first), 4)
      assert.equal(await exitCode(third), 0)
      assert.match(third.stdout, /^pool [\da-f]{32}\n$/)
      assert.match(third.stderr, /ended with 0 at .*, released one of 2 permits of "pool"\n$/)
      second.endCommands()
      assert.equal(await exitCode(second), 4)
    })

    it('holdfast run --permits gives the conflict exit code if no permit was acquired in time', async () => {
      const both = [holdfast([...copies, '--', ...UNTIL_STDIN_ENDS]), holdfast([...copies, '--', ...UNTIL_STDIN_ENDS])]
      await Promise.all(both.map((child) => prints(child, 'up')))
      const late = await ended([...copies, '--wait', '100ms', '--', 'true'])
      assert.deepEqual([late.code, late.stdout], [75, ''])
      assert.match(late.stderr, /one of 2 permits of "pool" was not acquired in time: held by others\n$/)
      for (const child of both) {
        child.endCommands()
        assert.equal(await exitCode(child), 4)
      }
    })

    it('holdfast run --permits ends the program if its permit is lost', async () => {
      const child = holdfast([...copies, '--', ...listener('SIGTERM')])
      await prints(child, 'up')
      const [permit] = await server.admin.zrangeBuffer('{pool}:timeout', '0', '-1')
      assert(permit)
      await server.admin.multi().zrem('{pool}:timeout', permit).incr('pool').exec()
      assert.equal(await exitCode(child), 76)
      assert.match(child.stderr, /A permit of semaphore "pool" \(label ".*"\) is no longer held by [\da-f]{32}/)
    })
  })

  describe('the command line', () => {
    const nowhere = { REDIS_URL: 'redis://127.0.0.1:1' }

    it('an invalid command line gives 64 and the reason, without connecting to Redis', async () => {
      for (const [line, message] of [
        ['run', 'no lock name'],
        ['run -- true', 'no lock name'],
        ['run a', 'no program to run'],
        ['run a --', 'no program to run'],
        ['run a --wait 30 -- true', '--wait: 30 has no unit; use 30s for seconds or 30ms for milliseconds'],
        ['run a --wait soon -- true', '--wait: expected a duration like 500ms, 30s, 5m or 2h, not "soon"'],
        ['run a --wait=-5s -- true', '--wait: expected a duration'],
        ['run a --wait -- true', "Option '--wait' needs a value"],
        ['run a --wait 999999999h -- true', '--wait: expected at most 100 years'],
        ['run a --permits 0 -- true', '--permits: expected a whole number of at least 1, not "0"'],
        ['run a --permits many -- true', '--permits: expected a whole number of at least 1, not "many"'],
        ['run a --at-least 9ms -- true', '--at-least: expected at least 10ms, not 9ms'],
        ['run a --at-least 5m --permits 2 -- true', '--at-least: is for one copy at a time, not for --permits'],
        ['run a --lease 0 -- true', '--lease: expected at least 1ms, not 0'],
        ['run a --on-lost panic -- true', '--on-lost: expected term, kill, warn, not "panic"'],
        ['run a --conflict-exit-code 256 -- true', '--conflict-exit-code: expected a number from 0 to 255'],
        ['run a --redis geheim://host -- true', 'Redis url: expected a Redis URL'],
        ['run a --redis redis://host --config file -- true', '--redis and --config cannot be combined'],
        ['run a --every 1 -- true', '--every: 1 has no unit'],
        ['run a --every 1h --no-record -- true', '--every: is a part of the record, which --no-record turns off'],
        ['run a --log xml -- true', '--log: expected text or json, not "xml"'],
        ['run a --loud -- true', "Unknown option '--loud'"],
        ['run a --wiat 5s -- true', "Unknown option '--wiat': did you mean --wait?"],
        ['steal a', 'unknown command "steal"'],
        ['unlok a', 'unknown command "unlok": did you mean unlock?'],
        ['--loud', 'unknown option "--loud"'],
      ] as const) {
        const run = await ended(line.split(' '), nowhere)
        assert.deepEqual([run.code, run.stdout], [64, ''], line)
        assert(run.stderr.startsWith(`holdfast: ${message}`), `${line}: ${run.stderr}`)
        assert.match(run.stderr, /\nTry: holdfast (run )?--help\n$/)
        assert.doesNotMatch(run.stderr, /geheim/)
      }
    })

    it('an empty command line prints the usage on stderr and gives 64', async () => {
      const run = await ended([])
      assert.deepEqual([run.code, run.stdout], [64, ''])
      assert.match(run.stderr, /^Usage: holdfast <command>/)
    })

    it('--help prints help on stdout', async () => {
      for (const line of ['--help', '-h', 'help']) {
        const run = await ended([line], nowhere)
        assert.deepEqual([run.code, run.stderr], [0, ''])
        assert.match(run.stdout, /^Usage: holdfast <command>/)
      }
      for (const line of ['help run', 'run --help', 'run -h', 'run a --help -- true']) {
        const run = await ended(line.split(' '), nowhere)
        assert.deepEqual([run.code, run.stderr], [0, ''])
        assert.match(run.stdout, /^Usage: holdfast run <lock>/)
      }
    })

    it('--version prints the version of the package', async () => {
      const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))
      const run = await ended(['--version'], nowhere)
      for (const same of ['-v', 'version']) assert.equal((await ended([same], nowhere)).stdout, run.stdout)
      assert.deepEqual([run.code, run.stdout], [0, `${version}\n`])
    })
  })
})
