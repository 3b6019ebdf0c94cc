import { once } from 'node:events'
import { createServer } from 'node:net'

const given = new Set<number>()

/**
 * A port of 127.0.0.1 that was free a moment ago. It lies below the range from which the kernel serves outgoing
 * connections: there a client that reconnects to a stopped server may connect to itself and keep the port.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = 10_000 + Math.floor(Math.random() * 20_000)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
  throw new Error('found no free port on 127.0.0.1 between 10000 and 29999')
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    probe.listen(port, '127.0.0.1')
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}
