/** What an editor shows: every public method of what users get has an example. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'

/** From the compiled test in build/test/docs. */
const SOURCE = new URL('../../../src/', import.meta.url)

/** Classes whose methods users call. */
const PUBLIC = [
  'client.ts',
  'client-events.ts',
  'locks/base-lock.ts',
  'locks/lock.ts',
  'locks/hold.ts',
  'locks/read-write-lock.ts',
  'synchronizers/semaphore.ts',
  'synchronizers/permit-expirable-semaphore.ts',
  'synchronizers/count-down-latch.ts',
  'web-locks/manager.ts',
  'web-locks/web-lock.ts',
  'nestjs/module.ts',
  'nestjs/health.ts',
]
/** Functions that users import, by the module that has them. */
const FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
  'connect.ts': ['connect'],
  'dashboard/dashboard.ts': ['createDashboard'],
  'locks/multi-lock.ts': ['getMultiLock'],
  'locks/red-lock.ts': ['getRedLock'],
  'fencing.ts': ['fencedSet', 'fencedUpdate'],
  'adapters/ioredis/port.ts': ['ioredis'],
  'adapters/node-redis/port.ts': ['nodeRedis'],
  'adapters/valkey-glide/port.ts': ['valkeyGlide'],
  'adapters/bun/port.ts': ['bun'],
  'adapters/http/port.ts': ['http'],
  'config/load.ts': ['loadConfig'],
  'nestjs/inject.ts': ['getHoldfastToken', 'InjectHoldfast'],
  'nestjs/lock-name.ts': ['LockKey'],
  'nestjs/locked.ts': ['currentHold', 'Locked'],
}
/** What an editor shows for these needs no example: they are called by the language. */
const NAMELESS = /^(constructor|\[)/

describe('the documentation of a public method', () => {
  for (const file of PUBLIC) {
    it(`the documentation of the public methods in src/${file} has an example`, () => {
      const text = readFileSync(new URL(file, SOURCE), 'utf8')
      const [, body = ''] = /^export (?:abstract )?class [\s\S]*?\{\n([\s\S]*)/m.exec(text) ?? []
      const documented = [
        ...body.matchAll(/ {2}\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}(?:static |async |override )*([\w[]+)[<(]/g),
      ]
      const without = documented.filter(
        ([, doc = '', name = '']) => !NAMELESS.test(name) && !doc.includes('@internal') && !doc.includes('@example'),
      )
      assert(documented.length > 0)
      assert.deepEqual(
        without.map(([, , name]) => name),
        [],
      )
    })
  }
})

describe('the documentation of a function that is imported', () => {
  for (const [file, names] of Object.entries(FUNCTIONS)) {
    it(`the documentation of ${names.join(', ')} has an example`, () => {
      const text = readFileSync(new URL(file, SOURCE), 'utf8')
      const documented = [
        ...text.matchAll(/^\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\nexport (?:async )?function (\w+)[<(]/gm),
      ].map(([, doc = '', name = '']) => ({ name, doc }))
      for (const name of names) {
        const { doc = '' } = documented.find((one) => one.name === name) ?? {}
        assert.match(doc, /@example|```ts/, name)
      }
    })
  }
})
