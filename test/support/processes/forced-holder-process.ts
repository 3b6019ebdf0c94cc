import { setTimeout as sleep } from 'node:timers/promises'
import { LeaseLostError } from '../../../src/index.js'
import { driverNamed } from '../drivers.js'
import { kindNamed } from '../kinds.js'
import { onCommand, report } from './child.js'

/** Wall-clock time with fractions of a ms: the same for all processes of a machine. */
const now = (): number => performance.timeOrigin + performance.now()

export interface HolderCommand {
  /** The kind of lock `a` to hold. */
  readonly hold: string
  /** How long its function runs on after the abort, ms. */
  readonly stopMs: number
  /** Whether it also has effects, one after the other, for as long as it is not interrupted. */
  readonly isBusy?: boolean
}

export interface HolderReport {
  readonly at: 'ready' | 'held' | 'aborted' | 'ended'
  readonly holder?: string
  /** When, epoch ms. */
  readonly time?: number
  readonly reason?: string
  readonly forced?: LeaseLostError['forced']
}

/**
 * A process that holds the lock `a` until it is interrupted, or asked to end. While it does, it appends to the list
 * `effects`. Arguments: the URL of Redis, its driver, and `off` for a client without inspection.
 */
const [url = '', driver = 'a URL', inspection] = process.argv.slice(2)
const { client } = await driverNamed(driver).open(url, { inspection: inspection !== 'off' })
const effects = (await driverNamed('a URL').open(url, {})).client

// A wait opens the inbox of the client.
const [first, second] = [client.getLock('warm').lock(), client.getLock('warm').lock()]
await sleep(50)
await (await first).unlock()
await (await second).unlock()

let interrupt: () => void = () => {}
onCommand<HolderCommand | { readonly end: true }>((command) => {
  if ('end' in command) return interrupt()
  void run(command)
})
report({ at: 'ready', holder: client.id })

async function run({ hold: kind, stopMs, isBusy = false }: HolderCommand): Promise<void> {
  try {
    await kindNamed(kind)
      .lock(client, 'a')
      .withLock(async (hold) => {
        const aborted = new Promise<void>((resolve) => {
          interrupt = resolve
          hold.signal.addEventListener('abort', () => {
            report({ at: 'aborted', time: now(), ...lossOf(hold.signal.reason) })
            resolve()
          })
        })
        report({ at: 'held', holder: hold.holder })
        while (isBusy && !hold.signal.aborted) await effects.getSemaphore('effects').addPermits(1)
        await aborted
        await sleep(stopMs)
        // Its last effect: a semaphore counts them, so that they are in Redis.
        await effects.getSemaphore('effects').addPermits(1)
      })
    report({ at: 'ended' })
  } catch (error) {
    report({ at: 'ended', time: now(), ...lossOf(error) })
  }
}

function lossOf(error: unknown): { reason: string; forced?: LeaseLostError['forced'] } {
  if (!(error instanceof LeaseLostError)) return { reason: String(error) }
  return { reason: error.reason, forced: error.forced }
}
