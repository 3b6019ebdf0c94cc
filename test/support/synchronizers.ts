import { orderedQueue } from '../../src/wire/keys.js'
import type { AnyFixture, Fixture } from './fixture.js'
import { expectKeys, type KeyContent } from './key-contents.js'
import { SCRIPT_NAMES } from './script-names.js'
import type { Match } from './servers/tcp-proxy.js'
import { somebodyPolls } from './subscribers.js'
import { waitUntil } from './wait-until.js'

/** The stored replies of operations, which a lost reply may leave for 20 minutes. */
export const STORED_REPLIES = /^holdfast_idempotency:/

/** Resolves when the stored replies of all operations are deleted. */
export async function repliesForgotten(fixture: AnyFixture): Promise<void> {
  const message = 'the stored replies of operations are deleted'
  await waitUntil(async () => (await fixture.server.admin.keys('holdfast_idempotency:*')).length === 0, { message })
}

/** Fails unless these are all keys besides the generation, once the idempotency keys are cleared. */
export async function expectOnly(fixture: Fixture, expected: Readonly<Record<string, KeyContent>>): Promise<void> {
  await repliesForgotten(fixture)
  await expectKeys(fixture.server, expected, /^holdfast_generation:/)
}

/** Resolves when callers of two clients wait for permits of `a`: each has a place in the queue if it has an order. */
export async function allWait(fixture: AnyFixture, callers: number, isOrdered: boolean): Promise<void> {
  const { server, isWaiting } = fixture
  if (isWaiting && !isOrdered) return await somebodyPolls(fixture)
  const places = async () => (await server.admin.zcard(orderedQueue('a'))) === callers
  const listeners = async () => (await server.admin.pubsub('NUMSUB', 'redisson_sc:{a}'))[1] === 2
  await waitUntil(isOrdered ? places : listeners, { message: `${callers} callers wait` })
}

/** Lets a random part of a round trip pass. */
export async function moment(): Promise<void> {
  const until = performance.now() + Math.random() * 1.5
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
}

/** The requests that run this script (`semaphore/acquire`), for the faults of a proxy. Redis must know it by then. */
export function requestOf(script: string): Match {
  return (request) => SCRIPT_NAMES.get(/^EVALSHA (\S+) /.exec(request)?.[1] ?? '') === script
}
