import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Lock } from '../../src/index.js'
import type { AnyFixture } from './fixture.js'
import type { Place } from './places.js'
import type { RedisServer } from './servers/redis-server.js'
import { waitUntil } from './wait-until.js'

/** Of the tests, of connecting, and of servers among each other. */
const NOT_COUNTED =
  /^(config|info|ping|client|hello|command|monitor|echo|select|auth|quit|cluster|readonly|role|replconf|psync)\b/
const SCRIPT_CALLS = /^(eval|evalsha|eval_ro|evalsha_ro|script)\b/

/** How often each command ran. */
export interface CommandCount {
  /** By command, as Redis names it (`evalsha`, `script|load`), those that a script called included. */
  readonly calls: Record<string, number>
  /** The sum of `calls`. */
  readonly total: number
  /** EVAL, EVALSHA and SCRIPT alone: what was sent, not what ran inside. */
  readonly scripts: number
}

/** Counts the commands that the server executes while `fn` runs, without those of connecting and of the tests. */
export async function countCommands(server: Pick<Place, 'admin'>, fn: () => unknown): Promise<CommandCount> {
  await server.admin.config('RESETSTAT')
  await fn()
  const calls: Record<string, number> = {}
  for (const [, command = '', count] of (await server.admin.info('commandstats')).matchAll(
    /^cmdstat_(\S+?):calls=(\d+)/gm,
  )) {
    // None: it was refused, as what muted Sentinels publish.
    if (Number(count) > 0 && !NOT_COUNTED.test(command)) calls[command] = Number(count)
  }
  const sum = (commands: string[]) => commands.reduce((total, command) => total + (calls[command] ?? 0), 0)
  const commands = Object.keys(calls)
  return { calls, total: sum(commands), scripts: sum(commands.filter((command) => SCRIPT_CALLS.test(command))) }
}

/** Fails unless an uncontended lock and unlock is two script calls, with these commands inside. */
export async function expectTwoCommands(
  { server }: Pick<AnyFixture, 'server'>,
  lock: Lock,
  inside: readonly string[],
): Promise<void> {
  await (await lock.lock()).unlock() // Redis knows the scripts from here on
  const count = await countCommands(server, async () => {
    for (let n = 0; n < 10; n++) await (await lock.lock()).unlock()
  })
  assert.equal(count.scripts, 20)
  assert.deepEqual(Object.keys(count.calls).sort(), [...inside, 'evalsha'].sort())
}

/** One executed command, as MONITOR shows it. */
export interface MonitorLine {
  /** The server's clock, epoch ms. */
  readonly at: number
  /** `lua` for a command called by a script, else the address of the client that sent it. */
  readonly source: string
  readonly args: readonly string[]
}

export interface MonitorRecord {
  /** What ran so far, the admin's own commands left out. It grows until `stop`. */
  readonly lines: readonly MonitorLine[]
  /** Ends the recording; resolves to all lines of commands that ran before the first call. */
  stop(): Promise<readonly MonitorLine[]>
}

/** Records every command that the server executes, with its source. */
export async function recordMonitor(server: RedisServer): Promise<MonitorRecord> {
  const { admin } = server
  const lines: MonitorLine[] = []
  const marks = new Map<string, string>()
  // Not `admin.monitor()`: it rejects, and leaves the connection open, if a command of somebody else is reported in the
  // same packet as the reply to MONITOR. https://github.com/redis/ioredis/blob/main/lib/Redis.ts
  const monitor = admin.duplicate({ monitor: true, lazyConnect: false })
  let adminAddress: string | undefined
  let isMonitoring = false
  monitor
    .on('error', () => {})
    .once('monitoring', () => {
      isMonitoring = true
    })
  monitor.on('monitor', (time: string, args: string[], source: string) => {
    if (args[0]?.toLowerCase() === 'echo' && args[1]) marks.set(args[1], source)
    if (source !== adminAddress) lines.push({ at: Number(time) * 1_000, source, args })
  })
  /** A command of the admin that is seen in the stream: all that ran before it has been seen then. */
  const mark = async () => {
    const text = randomUUID()
    await admin.echo(text)
    return waitUntil(() => marks.get(text), { message: 'MONITOR should show what the admin sends' })
  }
  try {
    await waitUntil(() => isMonitoring, { message: 'the connection should have entered MONITOR' })
    adminAddress = await mark()
  } catch (error) {
    monitor.disconnect()
    throw error
  }
  lines.length = 0
  let stopped: Promise<readonly MonitorLine[]> | undefined
  const stop = async (): Promise<readonly MonitorLine[]> => {
    try {
      await mark()
    } finally {
      monitor.disconnect()
    }
    return lines
  }
  return {
    lines,
    stop() {
      stopped ??= stop()
      return stopped
    },
  }
}
