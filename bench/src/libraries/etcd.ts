import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Locker, OpenOptions, Server } from '../library.js'
import { freePort, Program } from '../program.js'

/** Longer than any run, as it is not renewed. */
const LEASE_SECONDS = 600

const isInstalled = (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'etcd')))

export const missing = isInstalled ? undefined : 'not installed: apt-get install etcd-server'

export async function serve(): Promise<Server> {
  const [port, peerPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  const peerUrl = `http://127.0.0.1:${peerPort}`
  const program = await Program.start(port, 'etcd', (dir) => [
    ...['--data-dir', dir, '--listen-client-urls', url, '--advertise-client-urls', url],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `default=${peerUrl}`],
  ])
  return { url, stop: () => program.stop() }
}

/** etcd's own lock service, which queues and waits in the server, through its JSON gateway. */
export async function open({ url }: OpenOptions): Promise<Locker> {
  const call = async (path: string, body: object): Promise<Record<string, string>> => {
    const response = await fetch(`${url}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`etcd: ${path}: ${await response.text()}`)
    return (await response.json()) as Record<string, string>
  }
  // Waiters with the same lease are the same owner, so every acquisition needs its own.
  return {
    async acquire(name) {
      const { ID: lease } = await call('lease/grant', { TTL: LEASE_SECONDS })
      await call('lock/lock', { name: Buffer.from(name).toString('base64'), lease })
      // Revoking the lease releases the lock: one call instead of two.
      return () => call('lease/revoke', { ID: lease })
    },
  }
}
