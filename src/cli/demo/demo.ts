// `holdfast demo`: a flash sale with the lock and without it.
import { randomBytes } from 'node:crypto'
import { exitCodeOf } from '../exit-codes.js'
import { Terminal } from '../terminal.js'
import { DEMO_USAGE } from '../usage.js'
import { Crew } from './flash-sale.js'
import { resultOf, type SaleResult } from './flash-sale-result.js'
import { Stock } from './flash-sale-stock.js'
import { type DemoOptions, readDemoOptions } from './options.js'
import { SaleProgress } from './progress.js'
import { openDemoRedis } from './redis.js'
import { BUYERS, explanation, introduction, moment, summary, table, verdict } from './report.js'
import { sampleLock } from './sample-lock.js'
import { timeline } from './timeline.js'

/**
 * `holdfast demo`: a flash sale on a real Redis, without a lock and with one.
 * @param args  the command line after the word `demo`
 * @returns the exit code
 * @throws {UsageError} the command line is invalid
 * @throws {Failure} no Redis is available
 */
export async function demo(args: string[]): Promise<number> {
  const options = readDemoOptions(args, process.env)
  if (options.help) {
    console.log(DEMO_USAGE)
    return 0
  }
  const interruption = new Interruption()
  try {
    return await show(options, interruption.signal)
  } catch (error) {
    if (interruption.exitCode === undefined) throw error
    return interruption.exitCode
  } finally {
    interruption.stop()
  }
}

async function show(options: DemoOptions, signal: AbortSignal): Promise<number> {
  const terminal = new Terminal(options.json ? process.stderr : process.stdout, process.env)
  const { unlocked, locked, seen } = await bothSales(options, terminal, signal)
  terminal.print('', ...table(terminal, unlocked, locked))
  terminal.print('', ...timeline(terminal, locked), '', ...moment(terminal, seen), ...explanation(terminal), '')
  if (options.json) process.stdout.write(`${summary(options.processes, unlocked, locked)}\n`)
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  return locked.oversold === 0 ? 0 : 1
}

async function bothSales(options: DemoOptions, terminal: Terminal, signal: AbortSignal) {
  const { processes } = options
  await using shared = await openDemoRedis(options, signal)
  terminal.print(...introduction(terminal, options, shared.description))

  const keyPrefix = `holdfast:demo:${randomBytes(3).toString('hex')}`
  const stock = new Stock(shared.redis, keyPrefix)
  try {
    await using crew = await Crew.open(processes, { redisUrl: shared.url, keyPrefix, buyers: BUYERS }, signal)

    const sale = async (title: string, isLocked: boolean): Promise<SaleResult> => {
      terminal.print('', `  ${terminal.paint('bold', title)}`, '')
      await stock.fill(options.stock)
      const progress = new SaleProgress(terminal, options.stock)
      const visits = await crew.sell(isLocked, (processes) => progress.update(processes)).finally(() => progress.end())
      const result = resultOf(options.stock, await stock.countOrders(), visits)
      terminal.print(...verdict(terminal, result))
      return result
    }
    const unlocked = await sale('1  Without a lock', false)
    let isOver = false
    const selling = sale('2  The same with Holdfast', true).finally(() => {
      isOver = true
    })
    const sampling = sampleLock(shared.redis, stock.lockName, () => isOver)
    await Promise.allSettled([selling, sampling])
    return { unlocked, locked: await selling, seen: await sampling }
  } finally {
    // If Redis is unreachable, the keys expire.
    await stock.clear().catch(() => {})
  }
}

/** Resolves when everything written was flushed, so that the process may exit. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()))
}

/**
 * Ends the sale cleanly on Ctrl-C and the like, or when the reader of stdout is gone. A second signal ends the process
 * immediately.
 */
class Interruption {
  readonly #abort = new AbortController()
  readonly #signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  exitCode: number | undefined

  constructor() {
    for (const name of this.#signals) process.once(name, this.#interrupt)
    // These stay: prints during the exit also fail.
    for (const stream of [process.stdout, process.stderr]) stream.on('error', () => this.#interrupt('SIGPIPE'))
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  stop(): void {
    for (const name of this.#signals) process.off(name, this.#interrupt)
  }

  readonly #interrupt = (name: NodeJS.Signals): void => {
    this.stop()
    this.exitCode ??= exitCodeOf(name)
    this.#abort.abort(new Error(`interrupted by ${name}`))
  }
}
