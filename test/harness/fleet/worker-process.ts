/** A process of the fleet: it takes locks as it is asked to, and knows what it holds. Arguments: topology, way, URL. */
import { channel } from 'node:diagnostics_channel'
import { hostname } from 'node:os'
import { type BaseLock, type Client, type Hold, type HoldfastChannels, LeaseLostError } from '../../../src/index.js'
import { KINDS } from '../../../src/locks/kinds/table.js'
import { kindNamed } from '../../support/kinds.js'
import { onCommand, report } from '../../support/processes/child.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { randomFrom } from '../random.js'
import {
  type Command,
  effectsOf,
  type HoldTerms,
  PERMITS,
  type Report,
  type SaidHold,
  type SaidWait,
} from './messages.js'
import { openRaw } from './servers.js'
import { openBy, type TopologyName } from './ways.js'

const [topology = 'single', way = '', url = ''] = process.argv.slice(2)
/** Longer than a run. */
const WAIT_MS = 3_600_000
const TASKS = 3

const { client } = await openBy(way, url, {
  inspection: { name: way },
  // All hand-offs that the program asks for, however slow the machine is.
  ...{ maxHandOffs: 10_000, maxHandOffMs: 10_000 },
  ...{ commandTimeoutMs: 20_000, slavesSyncTimeoutMs: 10_000 },
})
const raw = openRaw(topology as TopologyName, url)
const holds: SaidHold[] = []
/** As often as each has to be released. */
const held: Hold[] = []
const waits = new Set<SaidWait>()
/** By label: a call waits once it has been refused. */
const whenRefused = new Map<string | undefined, () => void>()
channel('holdfast:request:wait').subscribe((message) => {
  const { label } = message as HoldfastChannels['holdfast:request:wait']
  whenRefused.get(label)?.()
})
let rest = new AbortController()
const running: Promise<number>[] = []
let cross: () => void = () => {}
/** A client makes itself known when it first waits. */
const gate = await client.getLock(`gate:${client.id}`).lock()
const behindGate = client.getLock(`gate:${client.id}`).lock()

const HANDLERS: {
  readonly [Name in Command['do']]: (command: Extract<Command, { do: Name }>) => Promise<void> | void
} = {
  async begin() {
    await gate.unlock()
    await (await behindGate).unlock()
    say({ at: 'done' })
  },
  async hold(command) {
    await take(command)
    say({ at: 'done' })
  },
  wait(command) {
    running.push(watched(wait(command)))
  },
  say() {
    const about = { clientId: client.id, name: way, host: hostname(), pid: process.pid }
    say({ at: 'said', said: { ...about, holds, waits: [...waits] } })
  },
  async handOffs({ name, count }) {
    say({ at: 'done', count: await handOff(name, count) })
  },
  enter(command) {
    void watched(enter(command))
  },
  nest(command) {
    void watched(nest(command))
  },
  cross() {
    cross()
  },
  storm({ names, seed }) {
    const tasks = Array.from({ length: TASKS }, (_, task) => storm(names, randomFrom(seed * TASKS + task)))
    running.push(...tasks.map(watched))
  },
  async rest() {
    rest.abort(new Error('rest'))
    const counts = await Promise.all(running.splice(0))
    for (const hold of held.splice(0)) await hold.unlock()
    holds.length = 0
    waits.clear()
    whenRefused.clear()
    rest = new AbortController()
    say({ at: 'done', count: counts.reduce((sum, bodies) => sum + bodies, 0) })
  },
}

onCommand<Command>(async (command) => {
  await (HANDLERS[command.do] as (command: Command) => unknown)(command)
})
say({ at: 'ready', holder: client.id })

function say(message: Report): void {
  report(message)
}

/** @returns how many bodies ran; reports a failure */
async function watched(work: Promise<number | undefined>): Promise<number> {
  try {
    return (await work) ?? 0
  } catch (error) {
    say({ at: 'failed', reason: String((error as Error).stack ?? error) })
    return 0
  }
}

async function take({ kind, name, label, count }: HoldTerms): Promise<void> {
  const askedAt = monotonicMs()
  const hold = await acquire(client, { kind, name, label })
  const grantedAt = monotonicMs()
  held.push(hold)
  for (let taken = 1; taken < count; taken++) {
    held.push(await kindNamed(kind).lock(client, name).lock({ within: hold }))
  }
  const mode = kind === 'read lock' ? 'read' : kind === 'write lock' ? 'write' : undefined
  // The members of joint locks look like locks: nobody waits in a queue for them.
  const isJoint = kind !== PERMITS && kindNamed(kind).isJoint
  const facts = {
    kind: isJoint ? KINDS.lock.title : kind,
    count,
    label,
    askedAt,
    grantedAt,
    ...(mode ? ({ mode } as const) : {}),
  }
  for (const { lockName, holder, permitIds } of hold.members) {
    for (const id of permitIds ?? [holder]) holds.push({ name: lockName, holder: id, ...facts })
  }
}

async function acquire(by: Client, { kind, name, label }: Omit<HoldTerms, 'count'>): Promise<Hold> {
  if (kind !== PERMITS) return await kindNamed(kind).lock(by, name).lock({ label })
  const semaphore = by.getPermitExpirableSemaphore(name)
  await semaphore.trySetPermits(1)
  return await semaphore.acquire({ label })
}

/** @returns once it was served, or the process is to rest */
async function wait({ kind, name, label, inside }: HoldTerms): Promise<number> {
  const until = async (chain: SaidWait['chain']): Promise<void> => {
    const askedAt = monotonicMs()
    whenRefused.set(label, () => {
      waits.add({ name, label, askedAt, refusedAt: monotonicMs(), waitTimeMs: WAIT_MS, chain })
    })
    const terms = { label, waitTimeMs: WAIT_MS, signal: rest.signal }
    if (kind === PERMITS) await client.getPermitExpirableSemaphore(name).withPermit(terms, () => {})
    else
      await kindNamed(kind)
        .rival(client, name)
        .withLock(terms, () => {})
  }
  const nested = async (): Promise<void> => {
    if (inside === undefined) return await until([])
    const askedAt = monotonicMs()
    await client.withLock(inside, { label }, async ({ holder }) => {
      holds.push({ name: inside, kind: KINDS.lock.title, holder, count: 1, label, askedAt, grantedAt: monotonicMs() })
      await until([{ lock: inside, holder }])
    })
  }
  const { signal } = rest
  await nested().catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
  return 0
}

/** @returns how often the lock was handed off, until the last task is inside */
async function handOff(name: string, count: number): Promise<number> {
  let handOffs = 0
  client.on('acquired', ({ hold, path }) => {
    if (hold.lockName === name && path === 'handoff') handOffs++
  })
  const lock = client.getLock(name)
  // The last task is granted the lock after the one before it has been.
  let askedAt = 0
  const others = Array.from({ length: count }, async (_, task) => {
    const hold = await lock.lock({ label: `task ${task}` })
    askedAt = monotonicMs()
    await hold.unlock()
  })
  const label = `task ${count}`
  const last = await lock.lock({ label })
  const grantedAt = monotonicMs()
  await Promise.all(others)
  held.push(last)
  holds.push({ name, kind: KINDS.lock.title, holder: last.holder, count: 1, label, askedAt, grantedAt })
  return handOffs
}

async function enter({ kind, name, stopMs }: Extract<Command, { do: 'enter' }>): Promise<undefined> {
  const body = kindNamed(kind)
    .lock(client, name)
    .withLock({ label: 'work' }, async ({ holder, signal }) => {
      await raw.rpush(effectsOf(name), `in ${holder}`)
      const aborted = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => {
          const { reason } = signal.reason as LeaseLostError
          say({ at: 'aborted', holder, time: monotonicMs(), reason })
          resolve()
        })
      })
      if (!signal.aborted) say({ at: 'inside', holder })
      await aborted
      await sleep(stopMs)
      await raw.rpush(effectsOf(name), `out ${holder}`)
    })
  say({ at: 'asked' })
  const reason = await body.then(
    () => 'no error',
    (error: unknown) => (error instanceof LeaseLostError ? error.reason : String(error)),
  )
  say({ at: 'ended', reason })
}

async function nest({ kind, outer, inner }: Extract<Command, { do: 'nest' }>): Promise<undefined> {
  const mayCross = new Promise<void>((resolve) => {
    cross = resolve
  })
  const lock = (name: string): BaseLock => kindNamed(kind).lock(client, name)
  const nested = lock(outer).withLock({ label: `${outer}, then ${inner}` }, async ({ holder, signal }) => {
    say({ at: 'outer', holder })
    await mayCross
    const waiting = lock(inner).withLock({ signal }, () => {})
    say({ at: 'crossing', time: monotonicMs() })
    await waiting
  })
  await nested.catch((error: unknown) => {
    if (!(error instanceof LeaseLostError)) throw error
  })
  say({ at: 'ended' })
}

/** Several locks at once, always in the order of the list. @returns how many bodies ran */
async function storm(names: readonly string[], random: () => number): Promise<number> {
  const { signal } = rest
  let bodies = 0
  const kinds = ['lock', 'fair lock', 'write lock']
  const nested = async (left: readonly number[]): Promise<void> => {
    const [first, ...others] = left
    if (first === undefined) {
      bodies++
      return await sleep(random() * 5)
    }
    const lock = kindNamed(kinds[first % kinds.length] as string).lock(client, names[first] as string)
    await lock.withLock({ signal }, async () => await nested(others))
  }
  while (!signal.aborted) {
    const some = names.map((_, at) => at).filter(() => random() < 3 / names.length)
    try {
      await nested(some)
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
  return bodies
}
