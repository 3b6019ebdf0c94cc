import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Context } from '../../src/locks/context.js'
import { LongWait } from '../../src/locks/reporting/long-wait.js'
import { NOT_KNOWN } from '../../src/locks/reporting/who-holds.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

it('a wait that ends during the look at its holders is not reported: the caller itself may be one of them by now', async () => {
  for (const endsDuringLook of [false, true]) {
    const clock = new FakeClock()
    const events: string[] = []
    const context = { clock, emit: (event: string) => events.push(event) > 0 } as unknown as Context
    const looks: (() => void)[] = []
    const look = async () => await new Promise<typeof NOT_KNOWN>((resolve) => looks.push(() => resolve(NOT_KNOWN)))
    const longWait = new LongWait(context, 'a', { warnAfterMs: 50, label: undefined }, look)
    await clock.advance(50)
    if (endsDuringLook) longWait.end()
    looks[0]?.()
    await clock.advance(1)
    longWait.end()
    assert.deepEqual(events, endsDuringLook ? [] : ['longWait'])
    assert.equal(looks.length, 1)
  }
})
