/** `holdfast doctor` on real servers, most of them deliberately misconfigured: it reports each fault and its fix. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { CHECKS } from '../../src/doctor/run-checks.js'
import { readPage } from '../docs/code-blocks.js'
import { configFolder, doctor, report, SECRET, withUser } from '../support/doctor.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { freePort } from '../support/servers/free-port.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'

describe('holdfast doctor', () => {
  const file = configFolder()

  describe('a healthy server', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis({ args: ['--appendonly', 'yes'] })
    })
    afterEach(() => expectNothingLeft(server))
    after(() => server.stop())

    it('a healthy server has no warning or problem, is left as it was, and gives exit code 0', async () => {
      const run = await report(['--redis', server.url])
      assert.deepEqual([run.code, run.ok, run.bad], [0, true, []])
      for (const id of ['reachable', 'version', 'eviction', 'persistence', 'role', 'trial-lock', 'pubsub']) {
        assert.equal(run.check(id).status, 'ok', `${id}: ${run.check(id).message}`)
      }
      assert.match(run.check('version').message, /^(Redis|Valkey) \d+\.\d+/)
      assert.equal(run.check('rights').status, 'note', 'the default user may do everything')
    })

    it('holdfast doctor prints one line per check by group; reasons and ids only with --verbose', async () => {
      const run = await doctor([], { REDIS_URL: server.url })
      assert.equal(run.code, 0)
      assert.equal(run.stderr, '')
      assert.match(run.stdout, /^Connection\n {2}✓ Reachable +127\.0\.0\.1:\d+ replies in/)
      assert.match(run.stdout, /\nData\n {2}✓ Eviction +noeviction\n/)
      assert.match(run.stdout, /\n\d notes, \d+ of \d+ OK\n$/)
      assert.ok(!run.stdout.includes('\x1b'))
      assert.ok(!run.stdout.includes(' why '))
      const verbose = await doctor(['--verbose'], { REDIS_URL: server.url })
      assert.match(verbose.stdout, / {6}why {3}A lock is a key with a TTL/)
      assert.match(verbose.stdout, / {6}id {4}eviction\n/)
    })
  })

  describe('a misconfigured server', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis()
    })
    afterEach(() => expectNothingLeft(server))
    after(() => server.stop())

    const faults: {
      settings: Record<string, string | number>
      expected: Record<string, [status: string, message: RegExp, fix: RegExp]>
    }[] = [
      {
        settings: { 'maxmemory-policy': 'allkeys-lru', maxmemory: '100mb' },
        expected: {
          eviction: ['problem', /^allkeys-lru: locks can be evicted/, /CONFIG SET maxmemory-policy noeviction/],
        },
      },
      {
        settings: { 'maxmemory-policy': 'volatile-ttl' },
        expected: { eviction: ['warning', /^volatile-ttl/, /CONFIG SET maxmemory-policy noeviction/] },
      },
      {
        settings: { maxmemory: 1 },
        expected: {
          memory: ['problem', /of 1 byte\b/, /maxmemory/],
          'trial-lock': ['problem', /\bOOM\b/, /maxmemory/],
        },
      },
      {
        settings: { save: '' },
        expected: { persistence: ['warning', /^none/, /CONFIG SET appendonly yes/] },
      },
      {
        settings: { save: '3600 1' },
        expected: { persistence: ['warning', /^snapshots only/, /CONFIG SET appendonly yes/] },
      },
      {
        settings: { timeout: 30 },
        expected: { 'idle-timeout': ['warning', /30 s/, /CONFIG SET timeout 0/] },
      },
      {
        settings: { 'tcp-keepalive': 0 },
        expected: { keepalive: ['warning', /^off/, /CONFIG SET tcp-keepalive/] },
      },
      {
        settings: { 'busy-reply-threshold': 100 },
        expected: { 'script-limit': ['warning', /100 ms/, /CONFIG SET busy-reply-threshold/] },
      },
      {
        settings: { 'client-output-buffer-limit': 'pubsub 1000 1000 10' },
        expected: { 'output-buffer': ['warning', /1000 bytes/, /CONFIG SET client-output-buffer-limit/] },
      },
      {
        settings: { 'min-replicas-to-write': 1 },
        expected: {
          'min-replicas': ['problem', /NOREPLICAS/, /CONFIG SET min-replicas-to-write 0/],
          'trial-lock': ['problem', /NOREPLICAS/, /replicas/],
        },
      },
    ]
    for (const { settings, expected } of faults) {
      const title = Object.entries(settings).map(([name, value]) => `${name} "${value}"`)
      it(`holdfast doctor reports ${title.join(' and ')}`, async () => {
        const { admin } = server
        const before = new Map<string, string>()
        for (const [name, value] of Object.entries(settings)) {
          const [, old = ''] = (await admin.config('GET', name)) as string[]
          before.set(name, old)
          await admin.config('SET', name, value)
        }
        try {
          const run = await report(['--redis', server.url])
          for (const [id, [status, text, fix]] of Object.entries(expected)) {
            const check = run.check(id)
            assert.equal(check.status, status, check.message)
            assert.match(check.message, text)
            assert.match(check.fix ?? '', fix)
          }
          assert.equal(run.code, Object.values(expected).some(([status]) => status === 'problem') ? 1 : 0)
        } finally {
          for (const [name, old] of before) await admin.config('SET', name, old)
        }
      })
    }

    it('holdfast doctor reports a slow command without its arguments', async () => {
      const { admin } = server
      const slow = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
        local until_ = now() + 150 while now() < until_ do end return ARGV[1]`
      await admin.eval(slow, 0, SECRET)
      const run = await report(['--redis', server.url])
      await admin.slowlog('RESET')
      const check = run.check('slow-commands')
      assert.equal(check.status, 'note')
      assert.match(check.message, /^EVAL took \d+ ms$/)
      assert.ok(!JSON.stringify(run).includes(SECRET))
    })

    it('holdfast doctor reports that maxclients is reached', async () => {
      const { admin } = server
      await admin.config('SET', 'maxclients', 3) // ours, and two of the doctor
      try {
        const run = await report(['--redis', server.url])
        assert.deepEqual([run.code, run.check('clients').status], [1, 'problem'])
        assert.match(run.check('clients').fix ?? '', /maxclients/)
        assert.equal(run.check('pubsub').status, 'warning')
      } finally {
        await admin.config('SET', 'maxclients', 10_000)
      }
    })

    it('holdfast doctor prints reason and fix below the line of a check that fails', async () => {
      await server.admin.config('SET', 'tcp-keepalive', 0)
      const run = await doctor(['--redis', server.url])
      await server.admin.config('SET', 'tcp-keepalive', 300)
      assert.match(
        run.stdout,
        /\n {2}! TCP keep-alive +off\n {6}why {3}.*\n(.*\n)* {6}fix {3}CONFIG SET tcp-keepalive 60\n/,
      )
      assert.match(run.stdout, /\n2 warnings, /)
    })
  })

  describe('a missing or inaccessible Redis', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis()
      await server.admin.config('SET', 'requirepass', SECRET)
    })
    after(() => server.stop())

    it('holdfast doctor reports an unreachable Redis and exits with 69', async () => {
      const run = await report(['--redis', `redis://127.0.0.1:${await freePort()}`])
      assert.deepEqual([run.code, run.ok, run.checks.length], [69, false, 1])
      assert.match(run.check('reachable').message, /ECONNREFUSED/)
    })

    it('holdfast doctor reports a wrong or missing password without printing it, and exits with 69', async () => {
      const wrong = `${SECRET}-wrong`
      for (const url of [withUser(server, 'default', wrong), server.url]) {
        for (const run of [await report([], { REDIS_URL: url }), await doctor(['--redis', url])]) {
          assert.equal(run.code, 69)
          assert.ok(!JSON.stringify(run).includes(SECRET))
        }
        const run = await report(['--redis', url])
        assert.match(run.check('reachable').message, /WRONGPASS|NOAUTH/)
        assert.match(run.check('reachable').fix ?? '', /password/)
      }
    })

    it('holdfast doctor rejects wrong usage with 64, without printing secrets', async () => {
      for (const args of [
        ['--nonsense'],
        ['--redis', `http://user:${SECRET}@example.org`],
        ['--redis', server.url, '--config', 'x.yaml'],
        ['--config', join('no-such-folder', 'missing.yaml')],
        ['--config', file('wrong.yaml', 'singleServerConfig:\n  address: redis://127.0.0.1:6379\n  nonsense: 1\n')],
        ['--user', 'app'],
        ['--acl', '--prefix', 'two words'],
      ]) {
        const run = await doctor(args)
        assert.equal(run.code, 64, `${args}: ${run.stdout}${run.stderr}`)
        assert.match(run.stderr, /^holdfast: .+\n(.*\n)*Try: holdfast doctor --help\n$/)
        assert.ok(!run.stderr.includes(SECRET))
      }
    })

    it('holdfast doctor reports a server that does not reply', async () => {
      await using silent = await startRedis()
      await using proxy = await startProxy(silent.port)
      proxy.freeze()
      const address = `singleServerConfig:\n  address: redis://127.0.0.1:${proxy.port}\n  connectTimeout: 500\n`
      const run = await report(['--config', file('silent.yaml', address)])
      assert.deepEqual([run.code, run.check('reachable').status], [69, 'problem'])
      assert.match(run.check('reachable').message, /no reply within 500 ms/)
    })
  })
  it('holdfast doctor reports settings of a Redisson configuration that are ignored or harmful', async () => {
    await using server = await startRedis()
    const address = `singleServerConfig:\n  address: "${server.url}"\n`
    const ignored = await report([
      '--config',
      file('ignored.yaml', `${address}  connectionPoolSize: 25\nthreads: 17\n`),
    ])
    assert.deepEqual([ignored.code, ignored.check('settings').status], [0, 'note'])
    assert.match(ignored.check('settings').message, /threads .*singleServerConfig\.connectionPoolSize/)
    const slow = file('slow.yaml', `${address}  timeout: 20000\nlockWatchdogTimeout: 30000\n`)
    const run = await report([], { HOLDFAST_CONFIG: slow })
    assert.equal(run.check('settings').status, 'warning')
    assert.match(run.check('settings').fix ?? '', /timeout: 3000/)
  })

  it('docs/cli.md documents every option and exit code of holdfast doctor', async () => {
    const { stdout, code } = await doctor(['--help'])
    assert.equal(code, 0)
    const page = readPage('docs/cli.md')
    const words = [
      ...(stdout.match(/--[a-z]+/g) ?? []),
      ...[...stdout.matchAll(/^ +(\d+) {2}/gm)].map(([, exit]) => exit),
    ]
    assert.ok(words.length > 10)
    for (const word of words) assert.ok(page.includes(String(word)), `${word} is not in docs/cli.md`)
  })

  it('docs/deploying.md documents every check of holdfast doctor', () => {
    const page = readPage('docs/deploying.md')
    const missing = CHECKS.filter(({ id }) => !page.includes(`\`${id}\``)).map(({ id }) => id)
    assert.deepEqual(missing, [])
    assert.equal(new Set(CHECKS.map(({ id }) => id)).size, CHECKS.length)
  })
})
