import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Kept until this process ends. */
const claims: Socket[] = []

/**
 * A port of 127.0.0.1 that was free a moment ago and that no other caller gets, in any process of the tests, not even while
 * the server that had it is down. It lies below the range from which the kernel serves outgoing connections: there a client
 * that reconnects to a stopped server may connect to itself and keep the port.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = 10_000 + Math.floor(Math.random() * 20_000)
    if ((await isFree(port)) && (await claimPort(port))) return port
  }
  throw new Error('found no free port on 127.0.0.1 between 10000 and 29999')
}

/** Takes the UDP port of the same number, which nobody here needs: other processes see it, and it ends with this one. */
export async function claimPort(port: number): Promise<boolean> {
  const claim = createSocket('udp4')
  try {
    claim.bind({ port, address: '127.0.0.1', exclusive: true })
    await once(claim, 'listening')
  } catch {
    claim.close()
    return false
  }
  claims.push(claim.unref())
  return true
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
