import type { AnyFixture } from './fixture.js'
import { waitUntil } from './wait-until.js'

/** Less than any poll, ms: a waiter that is served by then was woken. */
export const WOKEN_MS = 3_000

/** The channels of Redisson, without the inboxes of this library's clients. */
export const REDISSON_CHANNELS = 'redisson_*'

/** Resolves when exactly `count` channels whose names match `pattern` have subscribers. */
export async function listening({ server }: Pick<AnyFixture, 'server'>, count = 1, pattern = '*'): Promise<void> {
  const message = `${count} channels that match ${pattern} have subscribers`
  await waitUntil(async () => (await server.admin.pubsub('CHANNELS', pattern)).length === count, { message })
}

/** Resolves when `channel` has subscribers, and no other channel of Redisson has. */
export async function listeningOn({ server }: Pick<AnyFixture, 'server'>, channel: string): Promise<void> {
  const channels = () => server.admin.pubsub('CHANNELS', REDISSON_CHANNELS)
  await waitUntil(async () => (await channels()).join() === channel, { message: `only ${channel} has subscribers` })
}
