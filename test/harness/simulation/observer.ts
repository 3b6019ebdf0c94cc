import type { Node } from './node.js'

/** What a Sentinel, or another master of the cluster, knows about the servers. */
export interface Observer {
  readonly master: Node
  readonly epoch: number
  readonly flags: string
  /** The one that it names to clients: during a failover the successor. */
  readonly named: Node
}

const HOST = '127.0.0.1'

export function addressOf({ port }: Node): string {
  return `${HOST}:${port}`
}

/** What a Sentinel replies, as flat lists of names and values. */
export function sentinelReply(
  what: string,
  { master, epoch, flags, named }: Observer,
  nodes: readonly Node[],
): unknown {
  if (what === 'GET-MASTER-ADDR-BY-NAME') return [HOST, String(named.port)]
  if (what === 'MASTER') {
    const fields = { ip: HOST, port: master.port, runid: master.runId, flags, 'config-epoch': epoch }
    return Object.entries(fields).flat().map(String)
  }
  return nodes.flatMap((node) => (node === master ? [] : [['port', String(node.port), 'flags', flagsOf(node)]]))
}

/** CLUSTER SLOTS: all of them are of one master. */
export function slotsReply(master: Node, nodes: readonly Node[]): unknown {
  const known = nodes.filter((node) => node !== master && flagsOf(node) === 'slave')
  return [[0, 16_383, ...[master, ...known].map(({ port, name }) => [HOST, port, name])]]
}

function flagsOf({ isDown, frozen }: Node): string {
  return isDown || frozen !== undefined ? 'slave,s_down' : 'slave'
}
