/** `holdfast doctor` on real servers, most of them deliberately misconfigured: it reports each fault and its fix. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import type { Redis } from 'ioredis'
import { aclRule, PLAIN_COMMANDS, SCRIPT_COMMANDS } from '../../src/doctor/acl.js'
import { missingRights } from '../../src/doctor/checks/rights.js'
import { CHECKS } from '../../src/doctor/run-checks.js'
import { Server } from '../../src/doctor/server.js'
import type { DeploymentUnderTest } from '../../src/doctor/target.js'
import { connect } from '../../src/index.js'
import { codeBlocksOf, readPage } from '../docs/code-blocks.js'
import { spawnChild } from '../support/child.js'
import { freePort } from '../support/free-port.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { startCluster } from '../support/redis-cluster.js'
import { startSentinels } from '../support/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { startProxy } from '../support/tcp-proxy.js'
import { makeCertificates, startTlsRedis } from '../support/tls.js'
import { waitUntil } from '../support/wait-until.js'

/** From the compiled test in build/test/cli. */
const MAIN = new URL('../../../dist/cli/main.js', import.meta.url)
const SECRET = 'tr0ub4dor'

interface Report {
  ok: boolean
  checks: { id: string; status: string; message: string; why: string; fix: string | null }[]
}

/** Runs it to its end without `--json`. */
async function doctor(args: string[], env: Record<string, string> = {}) {
  const child = spawnChild(MAIN, ['doctor', ...args], { env: { REDIS_URL: '', HOLDFAST_CONFIG: '', ...env } })
  child.endCommands()
  const { code } = await child.exit
  return { code, stdout: child.stdout, stderr: child.stderr }
}

/** Runs it to its end with `--json`. */
async function report(args: string[], env: Record<string, string> = {}) {
  const all = { REDIS_URL: '', HOLDFAST_CONFIG: '', ...env }
  await using child = spawnChild(MAIN, ['doctor', ...args, '--json'], { env: all })
  child.endCommands()
  const report = (await child.nextMessage((message) => 'checks' in message, 60_000)) as unknown as Report
  const { code } = await child.exit
  const check = (id: string) => {
    const found = report.checks.find((one) => one.id === id)
    assert.ok(found, `no ${id} in ${report.checks.map((one) => one.id)}`)
    return found
  }
  const bad = report.checks.filter(({ status }) => status === 'warning' || status === 'problem')
  assert.equal(report.ok, !report.checks.some(({ status }) => status === 'problem'))
  for (const { id, why, fix, status } of report.checks) {
    assert.ok(why, `${id} has no reason`)
    if (status === 'warning' || status === 'problem') assert.ok(fix, `${id} has no fix`)
  }
  return { code, ...report, check, bad: bad.map(({ id }) => id), output: child.stdout + child.stderr }
}

function withUser({ url }: RedisServer, user: string, password: string): string {
  return url.replace('//', `//${user}:${password}@`)
}

describe('holdfast doctor', () => {
  const files = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'))
  after(() => rmSync(files, { recursive: true, force: true }))

  function file(name: string, text: string): string {
    const path = join(files, name)
    writeFileSync(path, text)
    return path
  }

  describe('on a healthy server', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis({ args: ['--appendonly', 'yes'] })
    })
    afterEach(() => expectNothingLeft(server))
    after(() => server.stop())

    it('reports no warning or problem, leaves nothing behind and exits with 0', async () => {
      const run = await report(['--redis', server.url])
      assert.deepEqual([run.code, run.ok, run.bad], [0, true, []])
      for (const id of ['reachable', 'version', 'eviction', 'persistence', 'role', 'trial-lock', 'pubsub']) {
        assert.equal(run.check(id).status, 'ok', `${id}: ${run.check(id).message}`)
      }
      assert.match(run.check('version').message, /^(Redis|Valkey) \d+\.\d+/)
      assert.equal(run.check('rights').status, 'note', 'the default user may do everything')
    })

    it('prints one line per check by group, without colours in a pipe; reasons and ids only with --verbose', async () => {
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

  describe('on a misconfigured server', () => {
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
      it(`reports ${title.join(' and ')}`, async () => {
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

    it('reports a slow command without its arguments', async () => {
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

    it('reports that maxclients is reached', async () => {
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

    it('prints reason and fix below the line of a check that fails', async () => {
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

  describe('without a Redis, or without access to it', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis()
      await server.admin.config('SET', 'requirepass', SECRET)
    })
    after(() => server.stop())

    it('reports an unreachable Redis and exits with 69', async () => {
      const run = await report(['--redis', `redis://127.0.0.1:${await freePort()}`])
      assert.deepEqual([run.code, run.ok, run.checks.length], [69, false, 1])
      assert.match(run.check('reachable').message, /ECONNREFUSED/)
    })

    it('reports a wrong or missing password without printing it, and exits with 69', async () => {
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

    it('rejects wrong usage with 64, without printing secrets', async () => {
      for (const args of [
        ['--nonsense'],
        ['--redis', `http://user:${SECRET}@example.org`],
        ['--redis', server.url, '--config', 'x.yaml'],
        ['--config', join(files, 'missing.yaml')],
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

    it('reports a server that does not reply', async () => {
      await using silent = await startRedis()
      await using proxy = await startProxy(silent.port)
      proxy.freeze()
      const address = `singleServerConfig:\n  address: redis://127.0.0.1:${proxy.port}\n  connectTimeout: 500\n`
      const run = await report(['--config', file('silent.yaml', address)])
      assert.deepEqual([run.code, run.check('reachable').status], [69, 'problem'])
      assert.match(run.check('reachable').message, /no reply within 500 ms/)
    })
  })

  describe('--acl', () => {
    let server: RedisServer
    before(async () => {
      server = await startRedis({ args: ['--appendonly', 'yes'] })
    })
    after(() => server.stop())

    async function user(...words: string[]): Promise<string> {
      await server.admin.call('ACL', 'SETUSER', 'someone', 'reset', 'on', `>${SECRET}`, ...words)
      return withUser(server, 'someone', SECRET)
    }

    it('prints only the rule', async () => {
      const run = await doctor(['--acl'])
      assert.deepEqual([run.code, run.stderr, run.stdout], [0, '', `${aclRule('app', 'lock:')}\n`])
      const other = await doctor(['--acl', '--user', 'shop', '--prefix', 'order:*'])
      assert.match(other.stdout, /^ACL SETUSER shop reset on >secret \+.* ~order:\* ~\{order:\* .*\n$/)
    })

    it('prints a rule that Redis accepts if every name is allowed', async () => {
      const { stdout } = await doctor(['--acl', '--user', 'all', '--prefix', '*', '--redis', server.url])
      assert.equal(await server.admin.call(...(stdout.trim().split(' ') as [string])), 'OK')
    })

    it('prints the rule in docs/architecture.md', () => {
      const blocks = codeBlocksOf('docs/architecture.md').map(({ lines }) =>
        lines.join(' ').split(/\s+/).join(' ').trim(),
      )
      assert.ok(
        blocks.includes(aclRule('app', 'lock:')),
        'the block of the user app is what holdfast doctor --acl prints',
      )
    })

    it('allows exactly the commands of the scripts', () => {
      const scripts = readFileSync(new URL('../../src/lua/generated.js', import.meta.url), 'utf8')
      const used = new Set([...scripts.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name = '']) => name))
      for (const outside of ['publish', 'time']) assert.ok(used.delete(outside))
      assert.deepEqual([...used].sort(), Object.keys(SCRIPT_COMMANDS).sort())
      for (const command of PLAIN_COMMANDS) assert.ok(used.has(command))
    })

    it('prints a rule that is sufficient for locks and for the doctor, and the doctor confirms it', async () => {
      const { stdout } = await doctor(['--acl', '--user', 'shop', '--prefix', 'order:', '--redis', server.url])
      const [, ...words] = stdout.trim().replace('>secret', `>${SECRET}`).split(' ')
      await server.admin.call('ACL', ...words)
      await server.admin.acl('LOG', 'RESET')
      const url = withUser(server, 'shop', SECRET)
      {
        await using client = await connect(url)
        const waiting = client.getFairLock('order:1')
        const hold = await waiting.lock()
        const next = waiting.lock()
        await hold.unlock()
        await (await next).unlock()
        await client
          .getReadWriteLock('order:2')
          .readLock()
          .withLock(async () => {})
      }
      assert.deepEqual(await server.admin.acl('LOG'), [])
      const run = await report(['--redis', url, '--prefix', 'order:*'])
      assert.deepEqual([run.code, run.ok], [0, true])
      assert.deepEqual(
        [run.check('rights').status, run.check('trial-lock').status, run.check('pubsub').status],
        ['ok', 'ok', 'ok'],
      )
      // It may not read the settings.
      assert.equal(run.check('keepalive').status, 'note')
      assert.match(run.check('keepalive').fix ?? '', /\+config\|get/)
      assert.equal(run.check('eviction').status, 'ok', 'from INFO')
      await expectNothingLeft(server)
    })

    it('reports the rights that a user lacks', async () => {
      const rights: [words: string[], status: string, message: RegExp][] = [
        [['+@all', '~lock:*', '&*'], 'warning', /no right to \{lock:.*fair locks/],
        [['+@all', '-lpos', '-zcard', '~*', '&*'], 'warning', /^not allowed: lpos, zcard$/],
        [['+@all', '-hset', '-evalsha', '~*', '&*'], 'problem', /^not allowed: hset, evalsha$/],
        [['+@all', '-publish', '~*', '&*'], 'warning', /^not allowed: publish$/],
        [['+@all', '-ssubscribe', '~*', '&*'], 'note', /all that are needed/],
        [['+@all', '~*', 'resetchannels'], 'problem', /no right to redisson_lock__channel:/],
        [['+@all', '~order:*', '&*'], 'problem', /no right to lock:.*, for all locks/],
      ]
      for (const [words, status, message] of rights) {
        const run = await report(['--redis', await user(...words)])
        const check = run.check('rights')
        assert.match(check.message, message)
        assert.equal(check.status, status, `${words}: ${check.message}`)
        assert.match(check.fix ?? '', /holdfast doctor --acl/)
      }
      const run = await report(['--redis', await user('+@all', '-hset', '~*', '&*')])
      assert.deepEqual([run.code, run.check('trial-lock').status], [1, 'problem'])
      assert.match(run.check('trial-lock').message, /NOPERM|hset|can't run/i)
      const unsubscribed = await report(['--redis', await user('+@all', '-subscribe', '~*', '&*')])
      assert.equal(unsubscribed.check('pubsub').status, 'warning')
      await expectNothingLeft(server)
    })

    it('reports what it may not check, and continues', async () => {
      const run = await report([
        '--redis',
        await user('+evalsha', '+eval', '+@hash', '+@keyspace', '+@pubsub', '~*', '&*'),
      ])
      for (const id of ['eviction', 'persistence', 'role', 'replicas', 'clients']) {
        assert.equal(run.check(id).status, 'note')
        assert.match(run.check(id).message, /^could not be checked: NOPERM/)
        assert.match(run.check(id).fix ?? '', /\+info/)
      }
      assert.equal(run.check('trial-lock').status, 'ok')
    })

    it('finds the same missing rights by trying commands, as it must before Redis 7', async () => {
      for (const words of [
        ['+@all', '~*', '&*'],
        ['+@all', '-lpos', '-zcard', '~*', '&*'],
        ['+@all', '~lock:*', '&*'],
        ['+@all', '~*', 'resetchannels', '&redisson_lock__channel:*'],
      ]) {
        await user(...words)
        const redis = server.admin.duplicate({ username: 'someone', password: SECRET, lazyConnect: false })
        try {
          const deployment = { prefix: 'lock:', trialName: 'lock:trial', isCluster: false }
          const [asked, tried] = await Promise.all(
            (['ask', 'try'] as const).map((way) => missingRights(new Server(redis), deployment, way)),
          )
          assert.deepEqual([tried?.commands, tried?.names], [asked?.commands, asked?.names], `${words}`)
        } finally {
          redis.disconnect()
        }
      }
      await expectNothingLeft(server)
    })
  })

  describe('with replicas', () => {
    let master: RedisServer
    let replica: RedisServer
    before(async () => {
      master = await startRedis({ args: ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'] })
      replica = await startRedis({ args: ['--replicaof', master.host, String(master.port)] })
      await waitUntil(() => replica.follows(master), { timeoutMs: 15_000, message: 'the replica follows' })
    })
    after(async () => {
      await replica.stop()
      await master.stop()
    })

    it('reports a replica, and the address of its master', async () => {
      const run = await report(['--redis', replica.url])
      assert.deepEqual([run.code, run.check('role').status], [1, 'problem'])
      assert.match(run.check('role').fix ?? '', new RegExp(`127\\.0\\.0\\.1:${master.port}`))
    })

    it('reports that replicas acknowledge, and that a master without them would continue', async () => {
      const run = await report(['--redis', master.url])
      assert.deepEqual([run.code, run.check('replicas').message, run.check('wait').status], [0, '1 up to date', 'ok'])
      assert.match(run.check('min-replicas').fix ?? '', /min-replicas-to-write 1/)
      assert.deepEqual(await master.admin.keys('*'), [])
    })

    it('reports that WAIT is denied', async () => {
      const { admin } = master
      await admin.call('ACL', 'SETUSER', 'someone', 'on', `>${SECRET}`, '+@all', '-wait', '~*', '&*')
      const run = await report(['--redis', withUser(master, 'someone', SECRET)])
      assert.match(run.check('wait').message, /^denied: NOPERM/)
      assert.match(run.check('wait').fix ?? '', /\+wait/)
    })

    it('reports that no replica acknowledges', async () => {
      replica.freeze()
      try {
        const run = await report(['--redis', master.url])
        assert.deepEqual([run.code, run.check('wait').status], [1, 'problem'])
        assert.match(run.check('wait').message, /no replica acknowledged/)
      } finally {
        replica.thaw()
      }
    })
  })

  it('reports settings of a Redisson configuration that are ignored or harmful', async () => {
    await using server = await startRedis()
    const address = `singleServerConfig:\n  address: "${server.url}"\n`
    const ignored = await report([
      '--config',
      file('ignored.yaml', `${address}  connectionPoolSize: 24\nthreads: 16\n`),
    ])
    assert.deepEqual([ignored.code, ignored.check('settings').status], [0, 'note'])
    assert.match(ignored.check('settings').message, /threads .*singleServerConfig\.connectionPoolSize/)
    const slow = file('slow.yaml', `${address}  timeout: 20000\nlockWatchdogTimeout: 30000\n`)
    const run = await report([], { HOLDFAST_CONFIG: slow })
    assert.equal(run.check('settings').status, 'warning')
    assert.match(run.check('settings').fix ?? '', /timeout: 3000/)
  })

  it('checks a server with TLS', async () => {
    using certificates = await makeCertificates()
    await using tls = await startTlsRedis(certificates)
    const env = { NODE_EXTRA_CA_CERTS: certificates.caFile }
    const run = await report(['--redis', tls.url], env)
    assert.deepEqual([run.code, run.check('encrypted').message, run.check('pubsub').status], [0, 'encrypted', 'ok'])
    const untrusted = await report(['--redis', tls.url])
    assert.equal(untrusted.code, 69)
  })

  it('checks the nodes, slots and replicas of a cluster', async () => {
    await using cluster = await startCluster()
    const addresses = cluster.nodes.map(({ url }) => `    - "${url}"`).join('\n')
    const config = file('cluster.yaml', `clusterServersConfig:\n  nodeAddresses:\n${addresses}\n`)
    const healthy = await report(['--config', config])
    assert.equal(healthy.code, 0, JSON.stringify(healthy.checks.filter(({ status }) => status === 'problem')))
    assert.equal(healthy.check('cluster-state').message, 'ok, 3 masters')
    assert.match(healthy.check('pubsub').message, /plain channels, and in .* on sharded ones/)
    assert.equal(healthy.check('wait').status, 'ok', healthy.check('wait').message)
    assert.equal(healthy.check('trial-lock').status, 'ok', healthy.check('trial-lock').message)
    assert.match(healthy.check('cluster-coverage').fix ?? '', /cluster-require-full-coverage no/)

    const [first] = cluster.nodes
    assert(first)
    await first.admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const uneven = await report(['--config', config])
    assert.equal(
      uneven.check('eviction').message,
      `127.0.0.1:${first.port}: allkeys-lru: locks will be evicted as soon as maxmemory is set`,
    )

    const single = await report(['--redis', first.url])
    assert.deepEqual([single.code, single.check('role').status], [1, 'problem'])
    assert.match(single.check('role').fix ?? '', /clusterServersConfig/)
  })

  it('checks Sentinels', async () => {
    await using group = await startSentinels()
    const addresses = group.sentinels.map(({ url }) => `    - "${url}"`).join('\n')
    const text = `sentinelServersConfig:\n  masterName: ${group.masterName}\n  sentinelAddresses:\n${addresses}\n`
    const config = file('sentinel.yaml', text)
    const healthy = await report(['--config', config])
    assert.equal(healthy.code, 0)
    assert.equal(healthy.check('sentinels').status, 'ok', healthy.check('sentinels').message)
    assert.match(healthy.check('sentinels').message, /^3 watch holdfast; 2 must agree/)
    assert.deepEqual([healthy.check('replicas').message, healthy.check('wait').status], ['2 up to date', 'ok'])

    await group.sentinels[2]?.kill()
    const run = await report(['--config', config])
    assert.equal(run.check('sentinels').status, 'warning')
    assert.match(run.check('sentinels').message, /^1 of 3 do not reply/)
    const off = await report(['--config', file('off.yaml', `${text}checkLockSyncedSlaves: false\n`)])
    assert.match(off.check('settings').message, /checkLockSyncedSlaves is false/)
  })

  describe('on the replies of a fake server', () => {
    const deployment = { isCluster: false } as DeploymentUnderTest

    /** A server with these fields of INFO that replies to these commands. */
    function fakeServer(info: Record<string, string>, replies: Record<string, () => unknown> = {}): Server {
      const fields = Object.entries(info).map(([name, value]) => `${name}:${value}\r\n`)
      const all: Record<string, () => unknown> = { INFO: () => fields.join(''), CLIENT: () => 7, ...replies }
      const call = async (command: string) => {
        const reply = all[command]
        if (!reply) throw Object.assign(new Error(`ERR unknown command '${command}'`), { name: 'ReplyError' })
        return reply()
      }
      return new Server({ options: { host: 'redis.example', port: 6379 }, call } as unknown as Redis)
    }

    async function finding(id: string, server: Server) {
      const check = CHECKS.find((one) => one.id === id)
      return await check?.run(server, deployment)
    }

    it('reports versions that are too old', async () => {
      const versions: [info: Record<string, string>, status: string, message: RegExp][] = [
        [{ redis_version: '4.0.14' }, 'problem', /^Redis 4\.0\.14: scripts that read the time/],
        [{ redis_version: '5.0.14' }, 'problem', /LPOS/],
        [{ redis_version: '6.0.16' }, 'note', /channels/],
        [{ redis_version: '6.2.14' }, 'note', /sharded/],
        [{ redis_version: '8.2.1' }, 'ok', /^Redis 8\.2\.1$/],
        [{ redis_version: '7.2.4', server_name: 'valkey', valkey_version: '8.1.3' }, 'ok', /^Valkey 8\.1\.3$/],
        [{ redis_version: '7.2.4', redict_version: '7.3.6' }, 'ok', /^Redict 7\.3\.6$/],
        [{ redis_version: '7.4.0', dragonfly_version: 'df-v1.30.0' }, 'ok', /^Dragonfly 1\.30\.0$/],
        [{ redis_version: '6.3.4', executable: '/usr/bin/keydb-server' }, 'note', /^KeyDB 6\.3\.4: no sharded/],
        [{ redis_version: '4.0.0', kvrocks_version: '2.12.1' }, 'problem', /^Kvrocks 2\.12\.1: scripts/],
      ]
      for (const [info, status, message] of versions) {
        const seen = await finding('version', fakeServer(info))
        assert.equal(seen?.status, status, seen?.message)
        assert.match(seen?.message ?? '', message)
      }
    })

    it('reports products that differ, and proxies', async () => {
      const products: [server: Server, status: string, message: RegExp][] = [
        [fakeServer({ redis_mode: 'standalone' }), 'ok', /^standalone/],
        [fakeServer({ valkey_version: '8.1.3', server_mode: 'cluster' }), 'ok', /^cluster/],
        [fakeServer({ dragonfly_version: 'df-v1.30' }), 'warning', /^Dragonfly/],
        [fakeServer({ executable: '/usr/bin/keydb-server' }), 'warning', /^KeyDB/],
        [fakeServer({ os: 'Amazon ElastiCache' }), 'note', /ElastiCache/],
        [fakeServer({ upstash_version: '1.0' }), 'note', /Upstash/],
        [fakeServer({}, { CLIENT: Math.random }), 'warning', /a proxy$/],
      ]
      for (const [server, status, message] of products) {
        const seen = await finding('product', server)
        assert.equal(seen?.status, status, seen?.message)
        assert.match(seen?.message ?? '', message)
      }
      const silent = fakeServer({}, { INFO: () => Promise.reject(new Error("ERR unknown command 'INFO'")) })
      assert.match((await finding('product', silent))?.message ?? '', /^INFO is not supported/)
    })

    it('reports clocks that differ, and a clock that steps', async () => {
      const time = (ms: number): string[] => [String(Math.floor(ms / 1_000)), String(Math.floor((ms % 1_000) * 1_000))]
      const ahead = await finding('clock', fakeServer({}, { TIME: () => time(Date.now() + 90_000) }))
      assert.equal(ahead?.status, 'note')
      assert.match(ahead?.message ?? '', /differ by (89|90)\d{3} ms/)
      let calls = 0
      const stepping = await finding('clock', fakeServer({}, { TIME: () => time(Date.now() - calls++ * 3_600_000) }))
      assert.equal(stepping?.status, 'warning')
      assert.match(stepping?.message ?? '', /stepped by -3\d{6} ms/)
    })

    it('reports failed writes and a lagging replica', async () => {
      const misconf = await finding('persistence', fakeServer({ rdb_last_bgsave_status: 'err' }))
      assert.match(misconf?.message ?? '', /MISCONF/)
      assert.equal(misconf?.status, 'problem')
      const lagging = { role: 'master', slave0: 'ip=10.0.0.2,port=6379,state=online,offset=1,lag=60' }
      const late = await finding('replicas', fakeServer(lagging))
      assert.deepEqual([late?.status, late?.message], ['warning', '10.0.0.2:6379 is online, 60 s behind'])
    })
  })

  it('documents every option and exit code in docs/cli.md', async () => {
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

  it('documents every check in docs/deploying.md', () => {
    const page = readPage('docs/deploying.md')
    const missing = CHECKS.filter(({ id }) => !page.includes(`\`${id}\``)).map(({ id }) => id)
    assert.deepEqual(missing, [])
    assert.equal(new Set(CHECKS.map(({ id }) => id)).size, CHECKS.length)
  })
})
