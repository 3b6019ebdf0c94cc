import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { countCommands, recordMonitor } from './command-stats.js'
import { expectNothingLeft, timersLeft, watchProcess } from './leak-check.js'
import { plainClient } from './plain-client.js'
import { spawnChild } from './processes/child.js'
import { freePort } from './servers/free-port.js'
import { type RedisServer, startRedis } from './servers/redis-server.js'
import { FrameCutter, wordsOf } from './servers/resp-frames.js'
import { settlesWithin, waitUntil } from './wait-until.js'

const childModule = new URL('./processes/support-child.js', import.meta.url)

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('wait-until', () => {
  it('waitUntil() polls until the condition returns something truthy, and resolves to that', async () => {
    let calls = 0
    assert.equal(await waitUntil(() => (++calls === 3 ? 'now' : undefined)), 'now')
    assert.equal(calls, 3)
  })

  it('waitUntil() reports what it waited for when the time is over, also when the condition hangs', async () => {
    const options = { timeoutMs: 20, message: 'the moon' }
    await assert.rejects(
      waitUntil(() => false, options),
      /not within 20 ms: the moon/,
    )
    await assert.rejects(
      waitUntil(() => new Promise(() => {}), { timeoutMs: 20, message: () => 'the sun' }),
      /the sun/,
    )
  })

  it('settlesWithin resolves to how a promise settled, and fails if it does not', async () => {
    assert.deepEqual(await settlesWithin(Promise.resolve(7), 100), { status: 'fulfilled', value: 7 })
    const reason = new Error('no')
    assert.deepEqual(await settlesWithin(Promise.reject(reason), 100), { status: 'rejected', reason })
    await assert.rejects(settlesWithin(new Promise(() => {}), 10), /still pending after 10 ms/)
  })
})

describe('redis-server', () => {
  it('a Redis server runs with its own pid, directory and no persistence, and is gone after stop', async () => {
    const server = await startRedis()
    assert.match(await server.admin.info('server'), new RegExp(`process_id:${server.pid}\\r`))
    const [, dir] = (await server.admin.config('GET', 'dir')) as string[]
    assert.ok(dir && existsSync(dir))
    assert.deepEqual(await server.admin.config('GET', 'save'), ['save', ''])
    assert.deepEqual(await server.admin.config('GET', 'bind'), ['bind', '127.0.0.1'])
    await server.admin.call('DEBUG', 'SLEEP', '0')
    const { pid } = server
    await server.stop()
    await server.stop()
    assert.ok(!isAlive(pid))
    assert.ok(!existsSync(dir))
  })

  it('a Redis server restarts on its port and forgets everything; the admin connection finds it', async () => {
    await using server = await startRedis()
    await server.admin.set('key', 'value')
    const { pid, port } = server
    await server.kill()
    assert.ok(!isAlive(pid))
    const pending = server.admin.get('key')
    await server.restart()
    assert.equal(server.port, port)
    assert.notEqual(server.pid, pid)
    assert.equal(await pending, null)
  })

  it('a Redis server keeps its directory over a restart, so an append-only file survives a kill', async () => {
    await using server = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
    await server.admin.set('key', 'value')
    await server.restart()
    assert.equal(await server.admin.get('key'), 'value')
    await server.restart([])
    assert.equal(await server.admin.get('key'), null)
  })

  it('a Redis server sends no reply while frozen, and executes what it received after the thaw', async () => {
    await using server = await startRedis()
    await server.admin.ping()
    server.freeze()
    const counted = server.admin.incr('count')
    await assert.rejects(settlesWithin(counted, 50), /still pending/)
    server.thaw()
    assert.equal(await counted, 1)
  })

  it('a Redis server reports what redis-server prints when it rejects its arguments', async () => {
    await assert.rejects(startRedis({ args: ['--no-such-option', '1'] }), /ended with code 1/)
  })

  it('a Redis server refuses to talk to a stranger that took its port', async () => {
    await using server = await startRedis()
    await server.kill()
    const stranger = createServer().listen(server.port, '127.0.0.1')
    await assert.rejects(server.restart(), /port \d+ is taken/)
    stranger.close()
    await server.restart()
    assert.equal(await server.admin.ping(), 'PONG')
  })

  it('startRedis() explains how to install redis-server where there is none', async () => {
    const { PATH: path } = process.env
    Object.assign(process.env, { PATH: '/nowhere' })
    try {
      await assert.rejects(startRedis(), /node scripts\/setup\/redis\.mjs/)
    } finally {
      Object.assign(process.env, { PATH: path })
    }
  })

  it('a Redis server dies with the process that started it, even one that was killed', async () => {
    const child = spawnChild(childModule)
    child.send({ do: 'start redis' })
    const { url, dir } = await child.nextMessage<{ url: string; dir: string }>((message) => 'url' in message)
    const replies = async () => {
      const [client] = await Promise.allSettled([plainClient(url)])
      if (client.status === 'fulfilled') client.value.disconnect()
      return client.status === 'fulfilled'
    }
    assert.ok(await replies())
    await child.stop()
    await waitUntil(async () => !(await replies()), { message: 'the server should be gone' })
    await waitUntil(() => !existsSync(dir), { message: 'its directory should be gone' })
  })

  it('freePort() gives each caller another port', async () => {
    const ports = await Promise.all(Array.from({ length: 20 }, () => freePort()))
    assert.equal(new Set(ports).size, 20)
  })

  it('freePort() gives a port to one process, whose server may be down', async () => {
    const port = await freePort()
    await using child = spawnChild(childModule)
    child.send({ do: 'claim port', value: port })
    assert.deepEqual(await child.nextMessage(({ claimed }) => claimed !== undefined), { claimed: false })
  })
})

describe('resp-frames', () => {
  const stream =
    '*2\r\n$4\r\nPING\r\n$0\r\n\r\n+OK\r\n:12\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n=7\r\ntxt:a\r\n\r\n' +
    '%1\r\n+k\r\n*1\r\n:1\r\n>3\r\n$7\r\nmessage\r\n+c\r\n$2\r\n\r\n\r\n|1\r\n+a\r\n+b\r\n:9\r\n-ERR no\r\n*0\r\nPING\r\n'
  const frames = [20, 5, 5, 5, 5, 3, 6, 4, 13, 16, 29, 16, 9, 4, 6]

  it('the RESP parser cuts a stream into whole frames, wherever the chunks end', () => {
    for (const size of [1, 2, 3, 7, 1_000]) {
      const cutter = new FrameCutter()
      const found: Buffer[] = []
      for (let at = 0; at < stream.length; at += size)
        found.push(...cutter.cut(Buffer.from(stream.slice(at, at + size))))
      assert.deepEqual(
        found.map((frame) => frame.length),
        frames,
      )
      assert.equal(Buffer.concat(found).toString(), stream)
    }
  })

  it('the RESP parser reads the words of requests, inline requests and messages', () => {
    assert.deepEqual(wordsOf(Buffer.from('*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n')), ['GET', 'a\r\nb'])
    assert.deepEqual(wordsOf(Buffer.from('GET key\r\n')), ['GET', 'key'])
    assert.deepEqual(wordsOf(Buffer.from('>3\r\n+message\r\n$1\r\nc\r\n:5\r\n')), ['message', 'c', '5'])
  })
})

describe('command-stats', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  it('the command recorder counts what ran, scripts apart, without connecting and looking', async () => {
    const counted = await countCommands(server, async () => {
      const client = await plainClient(server.url)
      await client.set('key', '1')
      await client.eval("return redis.call('get', KEYS[1])", 1, 'key')
      await client.script('LOAD', 'return 1')
      await client.ping()
      client.disconnect()
      await server.admin.client('LIST')
    })
    assert.deepEqual(counted, { calls: { set: 1, eval: 1, get: 1, 'script|load': 1 }, total: 4, scripts: 2 })
  })

  it('the command recorder records each command with its source', async () => {
    const client = await plainClient(server.url)
    const record = await recordMonitor(server)
    await server.admin.get('not recorded')
    await client.eval("redis.call('set', KEYS[1], 'two words')", 1, 'key')
    const lines = await record.stop()
    client.disconnect()
    assert.equal(lines.length, 2)
    assert.match(lines[0]?.source ?? '', /^127\.0\.0\.1:\d+$/)
    assert.equal(lines[0]?.args[0], 'eval')
    assert.equal(lines[1]?.source, 'lua')
    assert.deepEqual(lines[1]?.args, ['set', 'key', 'two words'])
    assert.ok(Math.abs((lines[1]?.at ?? 0) - Date.now()) < 10_000)
  })

  it('the command recorder begins while others send commands, and leaves no connection', async () => {
    const other = await plainClient(server.url)
    let isBusy = true
    const busy = (async () => {
      while (isBusy) await Promise.all(Array.from({ length: 200 }, () => other.ping()))
    })()
    try {
      for (let n = 0; n < 20; n++) {
        const record = await recordMonitor(server)
        await server.admin.echo('not recorded')
        assert((await record.stop()).every(({ args }) => args[0] === 'ping'))
      }
    } finally {
      isBusy = false
      await busy
      other.disconnect()
    }
    await expectNothingLeft(server, { keys: /^key$/ })
  })
})

describe('leak-check', () => {
  it('the leak check accepts a clean server, and lists every key, channel and connection left', async () => {
    await using server = await startRedis()
    await expectNothingLeft(server)
    const client = await plainClient(server.url, { connectionName: 'forgotten' })
    await client.set('left', '1')
    await client.set('allowed', '1')
    await client.subscribe('news')
    await client.ssubscribe('shard news')
    await assert.rejects(expectNothingLeft(server, { keys: /^allowed$/ }), (error: Error) => {
      assert.match(error.message, /key left, PTTL -1\n {2}channel news\n {2}shard channel shard news\n.*forgotten/)
      assert.doesNotMatch(error.message, /key allowed|name=admin/)
      return true
    })
    await server.admin.del('left')
    setTimeout(() => client.disconnect(), 50)
    await expectNothingLeft(server, { keys: /^allowed$/ })
  })

  it('the leak check collects the complaints of a process', async () => {
    await using child = spawnChild(childModule)
    child.send({ do: 'complain' })
    type Reply = { quiet: boolean; complaints: string[] }
    const complained = await child.nextMessage<Reply>((message) => 'quiet' in message)
    assert.equal(complained.quiet, false)
    const all = complained.complaints.join('\n')
    for (const expected of [
      /unhandled rejection: Error: nobody catches this/,
      /uncaught exception: Error: thrown in a tick/,
      /TimeoutOverflowWarning/,
      /MaxListenersExceededWarning/,
    ]) {
      assert.match(all, expected)
    }
    child.send({ do: 'be quiet' })
    const quiet = await child.nextMessage<Reply>((message) => 'quiet' in message)
    assert.deepEqual(quiet, { quiet: true, complaints: [] })
  })

  it('the leak check stays quiet and removes its handlers in a process that behaves', async () => {
    const listening = process.listenerCount('unhandledRejection')
    const watch = watchProcess()
    await watch.assertQuiet()
    watch.stop()
    assert.equal(process.listenerCount('unhandledRejection'), listening)
  })

  it('the leak check counts the timers that keep a process alive', async () => {
    const baseline = timersLeft()
    const timer = setTimeout(() => {}, 60_000)
    assert.equal(timersLeft(baseline), 1)
    assert.equal(await waitUntil(() => timersLeft(baseline)), 1, 'waiting adds none of its own')
    timer.unref()
    assert.equal(timersLeft(baseline), 0)
    clearTimeout(timer)
  })
})

describe('child', () => {
  it('a child process runs a module with arguments, environment and node options, and talks to it', async () => {
    await using child = spawnChild(childModule, ['one', 'two'], {
      env: { COLOUR: 'blue' },
      nodeArgs: ['--no-warnings'],
    })
    child.send({ do: 'echo', value: [1, 'ä\n'] })
    type Echo = {
      value: unknown
      args: string[]
      execArgv: string[]
      env: { COLOUR?: string; NODE_TEST_CONTEXT?: string }
    }
    const echo = await child.nextMessage<Echo>((message) => 'value' in message)
    assert.deepEqual([echo.value, echo.args, echo.execArgv], [[1, 'ä\n'], ['one', 'two'], ['--no-warnings']])
    assert.equal(echo.env.COLOUR, 'blue')
    assert.equal(echo.env.NODE_TEST_CONTEXT, undefined)
    assert.deepEqual(await child.nextMessage(), { ready: true }, 'a message passed over stays')
    assert.equal(child.stdout, 'not a message\n')
  })

  it('a child process reports the exit code, the last output, and that nothing more will come', async () => {
    const child = spawnChild(childModule)
    child.send({ do: 'say and exit' })
    assert.deepEqual(await child.exit, { code: 3, signal: null })
    assert.equal(child.stderr, 'written to stderr\n')
    assert.deepEqual(await child.nextMessage((message) => 'last' in message), { last: 'words' })
    await assert.rejects(
      child.nextMessage((message) => 'never' in message),
      /the child ended without the message\nwritten to stderr/,
    )
  })

  it('a child process freezes, thaws and is killed, also while frozen', async () => {
    const child = spawnChild(childModule)
    child.send({ do: 'tick' })
    const tick = (timeoutMs?: number) => child.nextMessage((message) => 'tick' in message, timeoutMs)
    await tick()
    child.freeze()
    await assert.rejects(async () => {
      while (true) await tick(40)
    }, /not within 40 ms/)
    child.thaw()
    await tick()
    child.freeze()
    await child.stop()
    assert.deepEqual(await child.exit, { code: null, signal: 'SIGKILL' })
  })

  it('a child process ends by itself when no more commands can come', async () => {
    const [finished, closed] = [spawnChild(childModule), spawnChild(childModule)]
    finished.send({ do: 'finish' })
    closed.endCommands()
    assert.deepEqual(await Promise.all([finished.exit, closed.exit]), Array(2).fill({ code: 0, signal: null }))
  })
})
