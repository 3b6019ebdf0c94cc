/** The dashboard as a server of its own, for one operator: `holdfast ui`. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { SystemClock } from '../util/clock.js'
import { type DashboardOptions, MountedDashboard, type Seams } from './dashboard.js'
import { TokenGuard } from './guard.js'

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']

export interface ServeOptions extends Pick<DashboardOptions, 'client' | 'title'> {
  /** The address to listen on. */
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  readonly readOnly: boolean
  /** Other names under which it may be requested. */
  readonly hosts: readonly string[]
  /** The user, for the audit. */
  readonly user: string
  /** A token that admits to the metrics, and to nothing else. */
  readonly metricsToken?: string | undefined
}

export interface ServedDashboard {
  /** Where it is, without the token. */
  readonly url: string
  readonly token: string
  /** Ends all connections. */
  close(): Promise<void>
}

/** @throws the error of Node if it cannot listen there */
export async function serveDashboard(options: ServeOptions, seams: Seams = {}): Promise<ServedDashboard> {
  const { client, host, port, readOnly, hosts, user, title, metricsToken } = options
  const guard = new TokenGuard(seams.clock ?? new SystemClock(), metricsToken)
  const dashboard = new MountedDashboard(
    {
      client,
      readOnly,
      authorize: (request, { address }) =>
        guard.refuse(request, address) ?? { by: `${user}, holdfast ui session ${guard.session},` },
      hosts: [...LOOPBACK, ...addressesOf(host).map(inUrl), ...hosts],
      ...(title !== undefined && { title }),
    },
    seams,
  )
  const server = createServer(dashboard.node)
  await listen(server, port, host)
  const { port: opened } = server.address() as AddressInfo
  return {
    url: `http://${inUrl(host)}:${opened}/`,
    token: guard.token,
    close: async () => {
      dashboard.close()
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

/** Whether nobody but this machine can reach what listens there. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host)
}

/** The hosts under which a browser may reach the bound address: all of the machine if it is a wildcard. */
function addressesOf(host: string): string[] {
  if (host !== '0.0.0.0' && host !== '::') return [host]
  const all = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
  return [host, ...all.filter((address) => !address.includes('%'))]
}

function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}
