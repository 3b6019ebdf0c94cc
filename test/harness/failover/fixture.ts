import type { ClientOptions } from '../../../src/index.js'
import { Clients, type Round } from './rounds.js'
import type { Fault, Topology } from './topology.js'

/** How often servers may fail to settle, in all faults of a topology together: the machine may be too busy. */
const MOST_BROKEN = 3

/** Servers and their clients. Both are replaced if the servers do not settle. */
export class Fixture implements AsyncDisposable {
  readonly #start: () => Promise<Topology>
  readonly #options: ClientOptions
  readonly #seed: number
  readonly #log: (text: string) => void
  #topology: Topology | undefined
  #clients: Clients | undefined
  #broken = 0

  constructor(start: () => Promise<Topology>, options: ClientOptions, seed: number, log: (text: string) => void) {
    this.#start = start
    this.#options = options
    this.#seed = seed
    this.#log = log
  }

  async faults(): Promise<readonly Fault[]> {
    return (await this.#open()).topology.faults
  }

  async run(id: string): Promise<Round> {
    try {
      const { topology, clients } = await this.#open()
      const fault = topology.faults.find((one) => one.id === id)
      if (!fault) throw new Error(`no such fault: ${id}`)
      const round = await clients.run(fault)
      // A round tests its own fault, not a client that died in the previous one.
      await clients.replace(clients.ways.filter((way) => !Number.isFinite(round.recoveryMs[way])))
      return round
    } catch (error) {
      this.#log(`${id}: the round is repeated, with new servers: ${String(error)}`)
      await this[Symbol.asyncDispose]()
      if (++this.#broken > MOST_BROKEN) throw error
      return await this.run(id)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const [clients, topology] = [this.#clients, this.#topology]
    this.#clients = undefined
    this.#topology = undefined
    await clients?.[Symbol.asyncDispose]()
    await topology?.[Symbol.asyncDispose]()
  }

  async #open(): Promise<{ topology: Topology; clients: Clients }> {
    this.#topology ??= await this.#start()
    if (!this.#clients) {
      this.#clients = new Clients(this.#topology, this.#options, this.#seed)
      await this.#clients.open()
      this.#log(`running, with clients: ${this.#clients.ways.join(', ')}`)
    }
    return { topology: this.#topology, clients: this.#clients }
  }
}
