import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Redis, type RedisOptions } from 'ioredis'
import { spawnChild } from './child.js'
import { countCommands, recordMonitor } from './command-stats.js'
import { freePort } from './free-port.js'
import { expectNothingLeft, timersLeft, watchProcess } from './leak-check.js'
import { type RedisServer, startRedis } from './redis-server.js'
import { FrameCutter, wordsOf } from './resp-frames.js'
import { startProxy, type TcpProxy } from './tcp-proxy.js'
import { keyNames, startTwin, type Twin } from './twin.js'
import { settlesWithin, waitUntil } from './wait-until.js'

const childModule = new URL('./support-child.js', import.meta.url)

type ClientOptions = Pick<RedisOptions, 'commandTimeout' | 'connectionName' | 'protocol'>

/** A client that reports its failures instead of hiding them: no second sending, no reconnection. */
async function plainClient(url: string, options: ClientOptions = {}): Promise<Redis> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    autoResendUnfulfilledCommands: false,
    commandTimeout: 2_000,
    ...options,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Commands written in one packet; how each of them settled, and what the socket said at its end. */
async function settled(...commands: Promise<unknown>[]): Promise<string[]> {
  const outcomes = await Promise.allSettled(commands)
  return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? String(outcome.value) : 'lost'))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('wait-until', () => {
  it('polls until the condition answers something truthy, and answers that', async () => {
    let asked = 0
    assert.equal(await waitUntil(() => (++asked === 3 ? 'now' : undefined)), 'now')
    assert.equal(asked, 3)
  })

  it('says what it waited for when the time is over, also when the condition hangs', async () => {
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

  it('settlesWithin answers how a promise settled, and fails if it does not', async () => {
    assert.deepEqual(await settlesWithin(Promise.resolve(7), 100), { status: 'fulfilled', value: 7 })
    const reason = new Error('no')
    assert.deepEqual(await settlesWithin(Promise.reject(reason), 100), { status: 'rejected', reason })
    await assert.rejects(settlesWithin(new Promise(() => {}), 10), /still pending after 10 ms/)
  })
})

describe('redis-server', () => {
  it('runs with its own pid, directory and no persistence, and is gone after stop', async () => {
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

  it('restarts on the same port and forgets everything; the admin connection finds it again', async () => {
    await using server = await startRedis()
    await server.admin.set('key', 'value')
    const { pid, port } = server
    await server.kill()
    assert.ok(!isAlive(pid))
    const asked = server.admin.get('key')
    await server.restart()
    assert.equal(server.port, port)
    assert.notEqual(server.pid, pid)
    assert.equal(await asked, null)
  })

  it('keeps its directory over a restart, so that an append-only file survives a kill', async () => {
    await using server = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
    await server.admin.set('key', 'value')
    await server.restart()
    assert.equal(await server.admin.get('key'), 'value')
    await server.restart([])
    assert.equal(await server.admin.get('key'), null)
  })

  it('answers nothing while frozen, and executes after the thaw what it was sent meanwhile', async () => {
    await using server = await startRedis()
    await server.admin.ping()
    server.freeze()
    const counted = server.admin.incr('count')
    await assert.rejects(settlesWithin(counted, 50), /still pending/)
    server.thaw()
    assert.equal(await counted, 1)
  })

  it('says what redis-server said when it refuses its arguments', async () => {
    await assert.rejects(startRedis({ args: ['--no-such-option', '1'] }), /ended with code 1/)
  })

  it('refuses to talk to a stranger that took its port', async () => {
    await using server = await startRedis()
    await server.kill()
    const stranger = createServer().listen(server.port, '127.0.0.1')
    await assert.rejects(server.restart(), /port \d+ is taken/)
    stranger.close()
    await server.restart()
    assert.equal(await server.admin.ping(), 'PONG')
  })

  it('says how to install redis-server where there is none', async () => {
    const { PATH: path } = process.env
    Object.assign(process.env, { PATH: '/nowhere' })
    try {
      await assert.rejects(startRedis(), /node scripts\/setup-redis\.mjs/)
    } finally {
      Object.assign(process.env, { PATH: path })
    }
  })

  it('dies with the process that started it, even one that was killed', async () => {
    const child = spawnChild(childModule)
    child.send({ do: 'start redis' })
    const { url, dir } = await child.nextMessage<{ url: string; dir: string }>((message) => 'url' in message)
    const answers = async () => {
      const [client] = await Promise.allSettled([plainClient(url)])
      if (client.status === 'fulfilled') client.value.disconnect()
      return client.status === 'fulfilled'
    }
    assert.ok(await answers())
    await child.stop()
    await waitUntil(async () => !(await answers()), { message: 'the server should be gone' })
    await waitUntil(() => !existsSync(dir), { message: 'its directory should be gone' })
  })

  it('gives each caller another free port', async () => {
    const ports = await Promise.all(Array.from({ length: 20 }, () => freePort()))
    assert.equal(new Set(ports).size, 20)
  })
})

describe('resp-frames', () => {
  const stream =
    '*2\r\n$4\r\nPING\r\n$0\r\n\r\n+OK\r\n:12\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n=7\r\ntxt:a\r\n\r\n' +
    '%1\r\n+k\r\n*1\r\n:1\r\n>3\r\n$7\r\nmessage\r\n+c\r\n$2\r\n\r\n\r\n|1\r\n+a\r\n+b\r\n:9\r\n-ERR no\r\n*0\r\nPING\r\n'
  const frames = [20, 5, 5, 5, 5, 3, 6, 4, 13, 16, 29, 16, 9, 4, 6]

  it('cuts a stream into whole frames, wherever the chunks end', () => {
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

  it('reads the words of requests, inline requests and messages', () => {
    assert.deepEqual(wordsOf(Buffer.from('*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n')), ['GET', 'a\r\nb'])
    assert.deepEqual(wordsOf(Buffer.from('GET key\r\n')), ['GET', 'key'])
    assert.deepEqual(wordsOf(Buffer.from('>3\r\n+message\r\n$1\r\nc\r\n:5\r\n')), ['message', 'c', '5'])
  })
})

describe('tcp-proxy', () => {
  let server: RedisServer
  let proxy: TcpProxy
  const clients: Redis[] = []
  const connect = async (options?: ClientOptions) => {
    const client = await plainClient(proxy.url, options)
    clients.push(client)
    return client
  }

  before(async () => {
    server = await startRedis()
    proxy = await startProxy(server.port)
  })
  after(async () => {
    for (const client of clients) client.disconnect()
    await expectNothingLeft(server, { keys: /^/ })
    await proxy.stop()
    await server.stop()
  })

  it('passes what is sent, and counts the connections', async () => {
    const before = proxy.connections
    const client = await connect()
    const big = 'x'.repeat(3_000_000)
    await client.set('big', big)
    assert.equal(await client.get('big'), big)
    assert.equal(proxy.connections, before + 1)
    client.disconnect()
    await waitUntil(() => proxy.connections === before)
  })

  it('delays a round trip, and keeps the order when the delay ends', async () => {
    const client = await connect()
    proxy.delay(60)
    const start = performance.now()
    await client.ping()
    assert.ok(performance.now() - start >= 59)
    let waiting = false
    proxy.delay(30, () => (waiting = true))
    const slow = client.append('order', 'a')
    await waitUntil(() => waiting)
    proxy.pass()
    const fast = client.append('order', 'b')
    assert.deepEqual(await Promise.all([slow, fast]), [1, 2])
    assert.equal(await server.admin.get('order'), 'ab')
  })

  it('delays only the requests that match', async () => {
    const [client, subscriber] = [await connect(), await connect()]
    proxy.delay(80, (request) => request.startsWith('SUBSCRIBE'))
    const start = performance.now()
    const subscribed = subscriber.subscribe('news')
    await client.ping()
    assert.ok(performance.now() - start < 60)
    await subscribed
    assert.ok(performance.now() - start >= 79)
    proxy.pass()
  })

  it('lets nothing pass while frozen, and delivers it afterwards', async () => {
    const client = await connect()
    proxy.freeze()
    const counted = client.incr('frozen')
    await assert.rejects(settlesWithin(counted, 40), /still pending/)
    assert.equal(await server.admin.get('frozen'), null)
    proxy.pass()
    assert.equal(await counted, 1)
  })

  it('loses replies while muted, but not requests, and resets the connection when that ends', async () => {
    const client = await connect({ commandTimeout: 300 })
    proxy.mute()
    const counted = client.incr('muted')
    await waitUntil(() => server.admin.get('muted'))
    assert.deepEqual(await settled(counted), ['lost'])
    proxy.pass()
    await waitUntil(() => client.status === 'end')
  })

  it('keeps a muted connection that lost nothing', async () => {
    const client = await connect()
    proxy.mute()
    proxy.pass()
    assert.equal(await client.ping(), 'PONG')
  })

  it('holds replies back while requests pass', async () => {
    const client = await connect()
    proxy.holdReplies()
    const counted = client.incr('late')
    await waitUntil(() => server.admin.get('late'))
    await assert.rejects(settlesWithin(counted, 20), /still pending/)
    proxy.pass()
    assert.equal(await counted, 1)
  })

  it('drops the reply of exactly the matching request of a pipeline, and nothing behind it arrives', async () => {
    const [client, other] = [await connect(), await connect()]
    proxy.dropNextReply((request) => request.startsWith('EVAL '))
    const commands = settled(
      client.incr('p:before'),
      client.eval("return redis.call('incr', KEYS[1])", 1, 'p:script'),
      client.incr('p:behind'),
    )
    assert.match(await proxy.dropped, /^EVAL .* 1 p:script$/)
    assert.equal(await other.ping(), 'PONG')
    assert.deepEqual(await commands, ['1', 'lost', 'lost'])
    assert.deepEqual(await server.admin.mget('p:before', 'p:script', 'p:behind'), ['1', '1', null])
    assert.equal(await other.eval('return 1', 0), 1, 'the fault happens once')
  })

  it('drops exactly the matching request of a pipeline, after what came before it was answered', async () => {
    const client = await connect()
    proxy.dropNextRequest((request) => request.includes('q:lost'))
    const commands = settled(client.incr('q:before'), client.incr('q:lost'), client.incr('q:behind'))
    assert.equal(await proxy.dropped, 'INCR q:lost')
    assert.deepEqual(await commands, ['1', 'lost', 'lost'])
    assert.deepEqual(await server.admin.mget('q:before', 'q:lost', 'q:behind'), ['1', null, null])
  })

  it('resets the connection (RST) of a dropped command', async () => {
    const client = await connect()
    const errors: (string | undefined)[] = []
    client.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code))
    proxy.dropNextRequest()
    await settled(client.ping())
    await waitUntil(() => client.status === 'end')
    assert.deepEqual(errors, ['ECONNRESET'])
  })

  for (const protocol of [2, 3] as const) {
    it(`tells replies from messages on a subscribed RESP${protocol} connection`, async () => {
      const subscriber = await connect({ protocol })
      const heard: string[] = []
      subscriber.on('message', (_channel: string, payload: string) => heard.push(payload))
      await subscriber.subscribe('a', 'b')
      await server.admin.publish('a', 'one')
      proxy.dropNextReply((request) => request === 'SUBSCRIBE c')
      proxy.holdReplies()
      const subscribed = settled(subscriber.subscribe('c'))
      await waitUntil(async () => (await server.admin.publish('c', 'not heard')) > 0)
      proxy.pass()
      await proxy.dropped
      assert.deepEqual(await subscribed, ['lost'])
      assert.deepEqual(heard, ['one'])
    })
  }

  it('cuts all connections', async () => {
    const [one, two] = [await connect(), await connect()]
    proxy.cutAll()
    await waitUntil(() => one.status === 'end' && two.status === 'end')
    assert.equal(proxy.connections, 0)
  })

  it('refuses new connections and takes them again on the same port, while open ones stay', async () => {
    const client = await connect()
    proxy.refuse()
    await assert.rejects(connect(), /Connection is closed|ECONNREFUSED/)
    assert.equal(await client.ping(), 'PONG')
    await proxy.accept()
    assert.equal(await (await connect()).ping(), 'PONG')
  })

  it('lets a client that ioredis reconnects count one command twice: a lost reply is sent again', async () => {
    const client = new Redis(proxy.url, { retryStrategy: () => 1 })
    client.on('error', () => {})
    clients.push(client)
    proxy.dropNextReply((request) => request.startsWith('INCR'))
    assert.equal(await client.incr('twice'), 2)
  })
})

describe('twin', () => {
  let server: RedisServer
  let twin: Twin
  let other: Twin

  before(async () => {
    server = await startRedis()
    ;[twin, other] = await Promise.all([startTwin(server.url), startTwin(server.url)])
  })
  after(async () => {
    twin.close()
    other.close()
    await expectNothingLeft(server)
    await server.stop()
  })

  it('spells keys and channels by the brace rule', () => {
    const names = (name: string) => {
      const { lock, channel, latch } = keyNames(name)
      return [lock, channel, latch('0f')]
    }
    const expected = ['order', 'redisson_lock__channel:{order}', 'redisson_unlock_latch:{order}:0f']
    assert.deepEqual(names('order'), expected)
    const tagged = ['{shop}:a', 'redisson_lock__channel:{shop}:a', 'redisson_unlock_latch:{shop}:a:0f']
    assert.deepEqual(names('{shop}:a'), tagged)
    assert.equal(keyNames('a{b').channel, 'redisson_lock__channel:a{b')
  })

  it('holds a lock as one hash field that counts, with a TTL', async () => {
    const { admin } = server
    assert.equal(await twin.acquire('lock', 47, 30_000), null)
    assert.equal(await twin.acquire('lock', 47, 5_000), null)
    assert.deepEqual(await admin.hgetall('lock'), { [`${twin.clientId}:47`]: '2' })
    assert.ok((await admin.pttl('lock')) <= 5_000)
    const leftMs = await other.acquire('lock', 47, 30_000)
    assert.ok(leftMs !== null && leftMs > 4_000 && leftMs <= 5_000)
    assert.equal(await twin.renew('lock', 47, 20_000), 1)
    assert.ok((await admin.pttl('lock')) > 19_000)
    assert.equal(await other.renew('lock', 47, 20_000), 0)
    assert.equal(await other.release('lock', 47), null)
    assert.equal(await twin.release('lock', 47, 9_000), 0)
    assert.ok((await admin.pttl('lock')) <= 9_000)
    assert.equal(await twin.release('lock', 47), 1)
    assert.deepEqual(await admin.keys('*'), [])
  })

  it('publishes 0 when the lock becomes free, and only then', async () => {
    const listening = await other.listen('lock')
    await twin.acquire('lock', 1, 30_000)
    await twin.acquire('lock', 1, 30_000)
    await twin.release('lock', 1)
    await twin.release('lock', 1)
    const { channel, payload } = await listening.next()
    assert.deepEqual({ channel, payload }, { channel: 'redisson_lock__channel:{lock}', payload: '0' })
    await twin.acquire('lock', 1, 30_000)
    assert.equal(await other.force('lock'), 1)
    assert.equal(await other.force('lock'), 0)
    assert.equal((await listening.next()).payload, '0')
    assert.equal(listening.messages.length, 2)
    await listening.stop()
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 0)
  })

  it('leaves the answer of an unlock in a latch key, and deletes it at once', async () => {
    const record = await recordMonitor(server)
    await twin.acquire('lock', 1, 30_000)
    await twin.release('lock', 1)
    const lines = await record.stop()
    const set = lines.find((line) => line.source === 'lua' && line.args[0] === 'set')
    assert.match(set?.args[1] ?? '', /^redisson_unlock_latch:\{lock\}:[0-9a-f]{32}$/)
    assert.deepEqual(set?.args.slice(2), ['1', 'px', '18000'])
    assert.deepEqual(lines.at(-1)?.args, ['del', set?.args[1]])
  })

  it('waits for a message, for the end of the lease, or for its own time, whichever comes first', async () => {
    await twin.acquire('lock', 1, 30_000)
    const woken = other.lock('lock', 2, 30_000, 5_000)
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 1)
    const releasedAt = performance.now()
    await twin.release('lock', 1)
    assert.equal(await woken, true)
    assert.ok(performance.now() - releasedAt < 500)
    await other.renew('lock', 2, 60)
    assert.equal(await twin.lock('lock', 3, 30_000, Infinity), true)
    const start = performance.now()
    assert.equal(await other.lock('lock', 4, 30_000, 50), false)
    assert.ok(performance.now() - start >= 49)
    assert.equal(await twin.release('lock', 3), 1)
  })

  it('wakes one waiter of its process for each message', async () => {
    await twin.acquire('lock', 1, 30_000)
    let held = 0
    const section = async (threadId: number) => {
      assert.equal(await other.lock('lock', threadId, 30_000, Infinity), true)
      assert.equal(++held, 1)
      await nextTurn()
      held--
      assert.equal(await other.release('lock', threadId), 1)
    }
    const sections = [2, 3, 4, 5].map(section)
    await waitUntil(async () => (await server.admin.pubsub('CHANNELS')).length === 1)
    await twin.release('lock', 1)
    await Promise.all(sections)
  })
})

describe('command-stats', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  it('counts what ran, scripts apart, without connecting and looking', async () => {
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

  it('records each command with its source', async () => {
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
})

describe('leak-check', () => {
  it('accepts a clean server, and lists every key, channel and connection that is left', async () => {
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

  it('collects what a process complains about', async () => {
    await using child = spawnChild(childModule)
    child.send({ do: 'complain' })
    type Answer = { quiet: boolean; complaints: string[] }
    const complained = await child.nextMessage<Answer>((message) => 'quiet' in message)
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
    const quiet = await child.nextMessage<Answer>((message) => 'quiet' in message)
    assert.deepEqual(quiet, { quiet: true, complaints: [] })
  })

  it('stays quiet and removes its handlers in a process that behaves', async () => {
    const listening = process.listenerCount('unhandledRejection')
    const watch = watchProcess()
    await watch.assertQuiet()
    watch.stop()
    assert.equal(process.listenerCount('unhandledRejection'), listening)
  })

  it('counts the timers that keep a process alive', async () => {
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
  it('runs a module with arguments, environment and node options, and talks to it', async () => {
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

  it('tells the exit code, what was said last, and that nothing more will come', async () => {
    const child = spawnChild(childModule)
    child.send({ do: 'say and exit' })
    assert.deepEqual(await child.exit, { code: 3, signal: null })
    assert.equal(child.stderr, 'said on stderr\n')
    assert.deepEqual(await child.nextMessage((message) => 'last' in message), { last: 'words' })
    await assert.rejects(
      child.nextMessage((message) => 'never' in message),
      /the child ended without the message\nsaid on stderr/,
    )
  })

  it('freezes, thaws and is killed, also while frozen', async () => {
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

  it('ends by itself when no more commands can come', async () => {
    const [told, closed] = [spawnChild(childModule), spawnChild(childModule)]
    told.send({ do: 'finish' })
    closed.endCommands()
    assert.deepEqual(await Promise.all([told.exit, closed.exit]), Array(2).fill({ code: 0, signal: null }))
  })
})
