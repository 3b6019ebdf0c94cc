import type { Client } from '../../../src/index.js'
import { type Child, spawnChild } from '../../support/processes/child.js'
import { sleep, waitUntil } from '../../support/wait-until.js'
import type { Command, Report, Said } from './messages.js'
import type { Servers } from './servers.js'
import { openBy, WAYS } from './ways.js'

const PROCESSES = 8
const PROGRAM = new URL('./worker-process.js', import.meta.url)
/** Longer than anything takes on a busy machine. */
const MOST_MS = 60_000
/** Between two looks: a client replies 20 times a second at most. */
export const PAUSE_MS = 150

/** One process of the fleet. */
export class Worker {
  readonly way: string
  /** Of its client. */
  readonly id: string
  readonly #child: Child

  static async start({ name, url }: Servers, way: string): Promise<Worker> {
    const child = spawnChild(PROGRAM, [name, way, url])
    const { holder = '' } = await child.nextMessage<Report>(({ at }) => at === 'ready', MOST_MS)
    return new Worker(child, way, holder)
  }

  private constructor(child: Child, way: string, id: string) {
    this.#child = child
    this.way = way
    this.id = id
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  send(command: Command): void {
    this.#child.send(command)
  }

  /** @throws {Error} the process failed at something */
  async next(at: Report['at']): Promise<Report> {
    const message = await this.#child.nextMessage<Report>((one) => one.at === at || one.at === 'failed', MOST_MS)
    if (message.at === 'failed') throw new Error(`${this.way}: ${message.reason}`)
    return message
  }

  async run(command: Command): Promise<Report> {
    this.send(command)
    return await this.next('done')
  }

  async say(): Promise<Said> {
    this.send({ do: 'say' })
    const { said } = await this.next('said')
    if (!said) throw new Error('it said nothing')
    return said
  }

  async stop(): Promise<void> {
    await this.#child.stop()
  }
}

/** The processes, and the client of the operator who looks at them. */
export class Workers implements AsyncDisposable {
  readonly all: readonly Worker[]
  readonly operator: Client
  readonly #end: () => Promise<void>

  static async start(servers: Servers): Promise<Workers> {
    const ways = WAYS[servers.name]
    const starting = Array.from({ length: PROCESSES }, (_, at) =>
      Worker.start(servers, ways[at % ways.length] as string),
    )
    const all = await Promise.all(starting)
    const { client, end } = await openBy(ways[servers.name === 'single' ? 4 : 0] as string, servers.url, {})
    const workers = new Workers(all, client, end)
    await workers.#areListed()
    for (const worker of all) await worker.run({ do: 'begin' })
    return workers
  }

  private constructor(all: readonly Worker[], operator: Client, end: () => Promise<void>) {
    this.all = all
    this.operator = operator
    this.#end = end
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((worker) => worker.stop()))
    await this.operator.close()
    await this.#end()
  }

  /** Each of them has said who it is. */
  async #areListed(): Promise<void> {
    const isListed = async (): Promise<boolean> => {
      await sleep(PAUSE_MS)
      const clients = await this.operator.fleet.clients({ timeoutMs: 1_000 })
      return this.all.every(({ id, pid }) =>
        clients.some((client) => client.id === id && client.pid === pid && client.status === 'responding'),
      )
    }
    await waitUntil(isListed, { timeoutMs: MOST_MS, message: 'all processes are listed' })
  }
}
