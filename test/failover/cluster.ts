import type { Topology } from './topology.js'

export class ClusterTopology {
  static async start(): Promise<Topology> {
    throw new Error('todo')
  }
}
