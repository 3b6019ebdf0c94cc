import type { Hold } from '../../src/index.js'

/** Resolves when what the client of `hold` was about to send has been sent and has its replies: its own round trips follow. */
export async function roundTrips(hold: Hold, count = 5): Promise<void> {
  for (let trip = 0; trip < count; trip++) await hold.isHeld()
}
