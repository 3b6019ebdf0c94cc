import type { AnyFixture } from './fixture.js'
import { waitUntil } from './wait-until.js'

type Polled = Pick<AnyFixture, 'server' | 'isWaiting'>

/** Less than any poll, ms: a waiter that is served by then was woken. */
export const WOKEN_MS = 3_000

/** The channels of Redisson, without the inboxes of this library's clients. */
export const REDISSON_CHANNELS = 'redisson_*'

/**
 * Resolves when exactly `count` channels whose names match `pattern` have subscribers; if waiters poll instead, when one has
 * asked several times.
 */
export async function listening(fixture: Polled, count = 1, pattern = '*'): Promise<void> {
  const { server, isWaiting } = fixture
  if (isWaiting && count > 0) return await somebodyPolls(fixture)
  const message = `${count} channels that match ${pattern} have subscribers`
  await waitUntil(async () => (await server.admin.pubsub('CHANNELS', pattern)).length === count, { message })
}

/** Resolves when `channel` has subscribers, and no other channel of Redisson has. */
export async function listeningOn({ server }: Pick<AnyFixture, 'server'>, channel: string): Promise<void> {
  const channels = () => server.admin.pubsub('CHANNELS', REDISSON_CHANNELS)
  await waitUntil(async () => (await channels()).join() === channel, { message: `only ${channel} has subscribers` })
}

/** Resolves when somebody has asked Redis several times. */
export async function somebodyPolls({ server }: Pick<AnyFixture, 'server'>): Promise<void> {
  const scriptCalls = async (): Promise<number> => {
    const stats = await server.admin.info('commandstats')
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0)
  }
  const before = await scriptCalls()
  await waitUntil(async () => (await scriptCalls()) >= before + 3, { message: 'a waiter polls' })
}
