/** What `holdfast doctor` says about replies that our servers do not give. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Redis } from 'ioredis'
import { CHECKS } from '../../src/doctor/run-checks.js'
import { Server } from '../../src/doctor/server.js'
import type { DeploymentUnderTest } from '../../src/doctor/target.js'

describe('holdfast doctor', () => {
  describe('holdfast doctor on the replies of a fake server', () => {
    const deployment = { isCluster: false, trialName: 'trial' } as DeploymentUnderTest

    /** A server with these fields of INFO that replies to these commands. */
    function fakeServer(
      info: Record<string, string>,
      replies: Record<string, (...args: string[]) => unknown> = {},
    ): Server {
      const fields = Object.entries(info).map(([name, value]) => `${name}:${value}\r\n`)
      const all: Record<string, (...args: string[]) => unknown> = {
        INFO: () => fields.join(''),
        CLIENT: () => 7,
        ...replies,
      }
      const call = async (command: string, ...args: string[]) => {
        const reply = all[command]
        if (!reply) throw Object.assign(new Error(`ERR unknown command '${command}'`), { name: 'ReplyError' })
        return reply(...args)
      }
      return new Server({ options: { host: 'redis.example', port: 6379 }, call } as unknown as Redis)
    }

    async function finding(id: string, server: Server) {
      const check = CHECKS.find((one) => one.id === id)
      return await check?.run(server, deployment)
    }

    it('holdfast doctor reports versions that are too old', async () => {
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

    it('holdfast doctor reports products that differ', async () => {
      const products: [server: Server, status: string, message: RegExp][] = [
        [fakeServer({ dragonfly_version: 'df-v1.30' }), 'warning', /^Dragonfly/],
        [fakeServer({ executable: '/usr/bin/keydb-server' }), 'warning', /^KeyDB/],
        [fakeServer({ os: 'Amazon ElastiCache' }), 'note', /ElastiCache/],
        [fakeServer({ upstash_version: '1.0' }), 'note', /Upstash/],
      ]
      for (const [server, status, message] of products) {
        const seen = await finding('product', server)
        assert.equal(seen?.status, status, seen?.message)
        assert.match(seen?.message ?? '', message)
      }
      for (const info of [{ redis_version: '8.2.1' }, { valkey_version: '8.1.3' }]) {
        assert.equal(await finding('product', fakeServer(info)), undefined)
      }
    })

    it('holdfast doctor reports a proxy that shards by key, and whether it knows hash tags', async () => {
      const tagOf = (key: string): string => /\{(.+)\}/.exec(key)?.[1] ?? key
      const shardOf = (text: string): string => String([...text].reduce((sum, char) => sum + char.charCodeAt(0), 0) % 2)
      const proxies: [evaluate: (key: string) => string, status: string, message: RegExp][] = [
        [() => 'a', 'ok', /^one server/],
        [(key) => shardOf(tagOf(key)), 'warning', /^a proxy in front of 2 servers: each lock/],
        [(key) => shardOf(key), 'problem', /ignores hash tags/],
        [() => '', 'note', /does not tell scripts/],
      ]
      for (const [evaluate, status, message] of proxies) {
        const seen = await finding('shards', fakeServer({}, { EVAL: (_text, _count, key = '') => evaluate(key) }))
        assert.equal(seen?.status, status, seen?.message)
        assert.match(seen?.message ?? '', message)
      }
    })

    it('holdfast doctor reports clocks that differ, and a clock that steps', async () => {
      const time = (ms: number): string[] => [String(Math.floor(ms / 1_000)), String(Math.floor((ms % 1_000) * 1_000))]
      const ahead = await finding('clock', fakeServer({}, { TIME: () => time(Date.now() + 90_000) }))
      assert.equal(ahead?.status, 'note')
      assert.match(ahead?.message ?? '', /differ by (89|90)\d{3} ms/)
      let calls = 0
      const stepping = await finding('clock', fakeServer({}, { TIME: () => time(Date.now() - calls++ * 3_600_000) }))
      assert.equal(stepping?.status, 'warning')
      assert.match(stepping?.message ?? '', /stepped by -3\d{6} ms/)
    })

    it('holdfast doctor reports failed writes and a lagging replica', async () => {
      const misconf = await finding('persistence', fakeServer({ rdb_last_bgsave_status: 'err' }))
      assert.match(misconf?.message ?? '', /MISCONF/)
      assert.equal(misconf?.status, 'problem')
      const lagging = { role: 'master', slave0: 'ip=10.0.0.2,port=6379,state=online,offset=1,lag=60' }
      const late = await finding('replicas', fakeServer(lagging))
      assert.deepEqual([late?.status, late?.message], ['warning', '10.0.0.2:6379 is online, 60 s behind'])
    })
  })
})
