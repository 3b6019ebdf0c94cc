/** `holdfast doctor --acl`: the rights that it recommends, and those that it misses. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { aclRule, PLAIN_COMMANDS, SCRIPT_COMMANDS } from '../../src/doctor/acl.js'
import { missingRights } from '../../src/doctor/checks/rights.js'
import { Server } from '../../src/doctor/server.js'
import { connect } from '../../src/index.js'
import { codeBlocksOf } from '../docs/code-blocks.js'
import { doctor, report, SECRET, withUser } from '../support/doctor.js'
import { expectNothingLeft } from '../support/leak-check.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

describe('holdfast doctor', () => {
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

    it('holdfast doctor --acl prints only the rule', async () => {
      const run = await doctor(['--acl'])
      assert.deepEqual([run.code, run.stderr, run.stdout], [0, '', `${aclRule('app', 'lock:')}\n`])
      const other = await doctor(['--acl', '--user', 'shop', '--prefix', 'order:*'])
      assert.match(other.stdout, /^ACL SETUSER shop reset on >secret \+.* ~order:\* ~\{order:\* .*\n$/)
    })

    it('holdfast doctor --acl prints a rule that Redis accepts if every name is allowed', async () => {
      const { stdout } = await doctor(['--acl', '--user', 'all', '--prefix', '*', '--redis', server.url])
      assert.equal(await server.admin.call(...(stdout.trim().split(' ') as [string])), 'OK')
    })

    it('holdfast doctor --acl prints the rules in docs/deploying.md', () => {
      const blocks = codeBlocksOf('docs/deploying.md').map(({ lines }) => lines.join(' ').split(/\s+/).join(' ').trim())
      assert.ok(
        blocks.includes(aclRule('app', 'lock:')),
        'the block of the user app is what holdfast doctor --acl prints',
      )
      assert.ok(
        blocks.includes(aclRule('viewer', 'lock:', undefined, 'viewer')),
        'the block of the user viewer is what holdfast doctor --acl --role viewer prints',
      )
    })

    it('holdfast doctor --acl allows exactly the commands of the scripts', () => {
      const scripts = readFileSync(new URL('../../src/lua/generated.js', import.meta.url), 'utf8')
      const used = new Set([...scripts.matchAll(/redis\.p?call\('(\w+)'/g)].map(([, name = '']) => name))
      // The last two are for operators, who record what they force.
      for (const outside of ['publish', 'time', 'lpush', 'ltrim']) assert.ok(used.delete(outside))
      assert.deepEqual([...used].sort(), Object.keys(SCRIPT_COMMANDS).sort())
      for (const command of PLAIN_COMMANDS) assert.ok(used.has(command))
    })

    it('holdfast doctor --acl prints a rule that suffices for locks and for the doctor', async () => {
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

    it('holdfast doctor --acl reports the rights that a user lacks', async () => {
      const rights: [words: string[], status: string, message: RegExp][] = [
        [['+@all', '~lock:*', '&*'], 'warning', /no right to \{lock:.*fair locks/],
        [['+@all', '-lpos', '-zcard', '~*', '&*'], 'warning', /^not allowed: lpos, zcard$/],
        [['+@all', '-hset', '-evalsha', '~*', '&*'], 'problem', /^not allowed: hset, evalsha$/],
        [['+@all', '-time', '~*', '&*'], 'problem', /^not allowed: time$/],
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

    it('holdfast doctor --acl reports what it may not check, and continues', async () => {
      const run = await report([
        '--redis',
        await user('+evalsha', '+eval', '+time', '+@hash', '+@keyspace', '+@pubsub', '~*', '&*'),
      ])
      for (const id of ['eviction', 'persistence', 'role', 'replicas', 'clients']) {
        assert.equal(run.check(id).status, 'note')
        assert.match(run.check(id).message, /^could not be checked: NOPERM/)
        assert.match(run.check(id).fix ?? '', /\+info/)
      }
      assert.equal(run.check('trial-lock').status, 'ok')
    })

    it('holdfast doctor --acl finds the same missing rights by trying commands as by asking', async () => {
      for (const words of [
        ['+@all', '~*', '&*'],
        ['+@all', '-lpos', '-zcard', '~*', '&*'],
        ['+@all', '~lock:*', '&*'],
        ['+@all', '~*', 'resetchannels', '&redisson_lock__channel:*'],
      ]) {
        await user(...words)
        const redis = server.admin.duplicate({ username: 'someone', password: SECRET, lazyConnect: false })
        try {
          const deployment = { prefix: 'lock:', trialName: 'lock:trial', isCluster: false, role: 'app' } as const
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
})
