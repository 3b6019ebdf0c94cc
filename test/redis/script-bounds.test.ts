/**
 * What one command costs Redis, which serves nobody else meanwhile: with 10,000 waiters, readers, permits or values no script
 * runs for more than 5 ms, and 32 calls in one command not for more than 20 ms. Times are those of the server, the shortest of
 * several runs, and compared with what this machine needs for a known script at the same moment.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Batch } from '../../src/delivery/batch.js'
import { SCRIPTS } from '../../src/lua/generated.js'
import type { ScriptCall } from '../../src/lua/script.js'
import { countCommands } from '../support/command-stats.js'
import { ALONE, CROWDS, type Crowd, channelsOf, PRELUDE, SEED_ARGS } from '../support/crowds.js'
import { setUpFixture } from '../support/fixture.js'

const MANY = 10_000
const FEWER = 2_000
/** So many commands in a script are not counted: there need not be a crowd to skip in one of 2,000. */
const FEW_COMMANDS = 500
const MOST_MS = 5
const MOST_OF_BATCH_MS = 20
const BATCH = 32
const RUNS = 30
/** A script with commands all over a large hash, and with work of its own; and what that takes on a machine of 2024, ms. */
const PREPARE_KNOWN = `redis.call('select', 1) for i = 1, 10000 do redis.call('hset', 'known', i, string.rep('k', 40)) end`
const KNOWN = `redis.call('select', 1)
for i = 1, 500 do redis.call('hget', 'known', i * 7919 % 10000) end
for i = 1, 250 do string.gsub('0123456789abcdef' .. i, '%x%x', function(digits) return string.char(tonumber(digits, 16)) end) end`
const KNOWN_MS = 0.6

describe('what one command costs Redis', () => {
  const fixture = setUpFixture()

  /** Makes a crowd of that size anew. */
  async function gather(of: Crowd, size: number): Promise<void> {
    const { admin } = fixture.server
    await admin.flushdb()
    await admin.eval(PRELUDE + of.lua, 0, size, ...SEED_ARGS)
  }

  /** How long the server takes for one command, ms. */
  async function serverMs(command: readonly [string, ...(string | number)[]]): Promise<number> {
    const { admin } = fixture.server
    await admin.config('RESETSTAT')
    await admin.call(...command)
    const stats = await admin.info('commandstats')
    return Number(new RegExp(`cmdstat_${command[0].toLowerCase()}:calls=1,usec=(\\d+)`).exec(stats)?.[1]) / 1_000
  }

  async function evalsha({ script, keys, args }: ScriptCall): Promise<readonly ['EVALSHA', ...(string | number)[]]> {
    await fixture.server.admin.script('LOAD', script.text)
    return ['EVALSHA', script.sha1, keys.length, ...keys, ...args.map(String)]
  }

  async function subscribeIf(of: Crowd): Promise<void> {
    if (!of.isSubscribed) return
    const listener = fixture.server.admin.duplicate()
    fixture.onEnd(() => listener.disconnect())
    await listener.subscribe(...channelsOf(MANY))
  }

  /**
   * Runs a call with the same crowd until it stays within the bound, or does so for a machine that at the same time, before
   * and after, needs as much longer for the known script. @returns what that took, ms
   */
  async function expectWithin(mostMs: number, of: Crowd, call: ScriptCall): Promise<number> {
    const command = await evalsha(call)
    const known = async (): Promise<number> => await serverMs(['EVAL', KNOWN, 0])
    const notes: string[] = []
    for (let run = 0; run < RUNS; run++) {
      await gather(of, MANY)
      const before = await known()
      const ms = await serverMs([...command])
      const times = Math.max(1, Math.min(before, await known()) / KNOWN_MS)
      if (ms <= mostMs * times) return ms
      notes.push(`${ms} ms, on a machine that is ${times.toFixed(1)} times as slow`)
    }
    assert.fail(notes.join('; '))
  }

  it('the cost of one command is known of every script', () => {
    const names = SCRIPTS.map(({ name }) => name).sort()
    assert.deepEqual([...Object.keys(CROWDS), ...ALONE].sort(), names)
  })

  for (const [name, crowds] of Object.entries(CROWDS)) {
    for (const one of crowds) {
      it(`the cost of one command is bounded for ${name}: ${one.title}`, async (t) => {
        fixture.onEnd(() => fixture.server.admin.flushall())
        await fixture.server.admin.eval(PREPARE_KNOWN, 0)
        await subscribeIf(one)
        const call = one.call(0)
        assert.equal(call.script.name, name)
        const inside = async (size: number): Promise<number> => {
          await gather(one, size)
          const command = await evalsha(call)
          let reply: unknown
          const { total } = await countCommands(fixture.server, async () => {
            reply = await fixture.server.admin.call(...([...command] as [string, ...(string | number)[]]))
          })
          assert(!(reply instanceof Error))
          return total
        }
        const [fewer, many] = [await inside(FEWER), await inside(MANY)]
        const most = Math.max(fewer + 10, FEW_COMMANDS)
        assert(many <= most, `${many} commands for ${MANY}, and ${fewer} for ${FEWER}`)
        const alone = await expectWithin(MOST_MS, one, call)
        t.diagnostic(`${many} commands, ${alone} ms`)

        const batch = new Batch({ call, resolve: () => {}, reject: () => {} }, 0)
        if (!batch.fits(call, 0)) return
        for (let index = 1; index < BATCH; index++) {
          batch.add({ call: one.call(index), resolve: () => {}, reject: () => {} })
        }
        t.diagnostic(`${batch.callers.length} calls ${await expectWithin(MOST_OF_BATCH_MS, one, batch.call)} ms`)
      })
    }
  }
})
