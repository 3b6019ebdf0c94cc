import { Client } from '../../../src/client.js'
import type { ClientOptions } from '../../../src/client-options.js'
import type { Random } from '../../../src/util/random.js'
import type { FakeClock } from './fake-clock.js'
import type { FakePort } from './fake-port.js'

let ids = 0
/** Each client has an id of its own, and random pauses come out in the middle. */
const random: Random = { uuid: () => `client-${++ids}-401dfa57`, fraction: () => 0.5 }

/**
 * A client on a fake Redis, for which time passes only when a test says so. Nobody asks it what it holds, unless a test
 * wants that: tests count its commands, channels and timers.
 */
export function fakeClient(clock: FakeClock, port: FakePort, options: ClientOptions = {}): Client {
  const client = new Client(port, { inspection: false, ...options }, { clock, random })
  // It knows the time at Redis, as after its first command.
  if (!('serverOf' in port)) client.getLock('a').context.scripts.learnTime('a', clock.now())
  return client
}
