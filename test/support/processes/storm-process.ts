import { Socket } from 'node:net'
import { contend, openClient } from '../failover.js'
import { onCommand, report } from './child.js'

/** A process whose tasks contend for locks until a command to stop. Argument: how to connect, as JSON. */
const { driver, place, options, userOptions } = JSON.parse(process.argv[2] ?? '')
const { client, end } = await openClient(driver, place, options, userOptions)
let isOver = false

const stop = onCommand<{ at: string }>(({ at }) => {
  if (at === 'go') void run()
  else isOver = true
})
report({ at: 'ready' })

async function run(): Promise<void> {
  const history = await contend(client, driver, { isOver: () => isOver })
  await end()
  report({ at: 'done', history })
  stop()
  // A sentinel of node-redis may leave a connection that keeps the process: see topologies/sentinels.test.ts.
  if (driver === 'node-redis' && place.sentinels) process.exit()
  // Nothing of ours may keep the process alive. If something does, the test says what.
  setTimeout(() => console.error('still open:', openHandles().join()), 5_000).unref()
}

/** What keeps the process, and where its sockets lead. */
function openHandles(): string[] {
  const sockets = (process as unknown as { _getActiveHandles(): unknown[] })
    ._getActiveHandles()
    .filter((handle) => handle instanceof Socket && handle.remotePort !== undefined)
    .map((socket) => `to ${(socket as Socket).remotePort}`)
  return [...process.getActiveResourcesInfo(), ...sockets]
}
