import assert from 'node:assert/strict'
import { Batch } from '../../src/delivery/batch.js'
import type { Argument, ScriptCall } from '../../src/lua/script.js'
import { forCluster, inTime, once } from '../../src/lua/variants.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import {
  AUDIT_KEY,
  fairChannelPrefix,
  fairDeadlines,
  fairQueue,
  fencingTokenKey,
  forcedKey,
  generationKey,
  INBOX_PREFIX,
  idempotencyKey,
  JOBS_KEY,
  jobKey,
  latchChannel,
  lockChannel,
  orderedClients,
  orderedQueue,
  permitLeases,
  readHoldPrefix,
  readWriteChannel,
  semaphoreChannel,
  turnQueueKey,
  WEB_LOCKS_KEY,
  watchChannel,
} from '../../src/wire/keys.js'
import type { Dice } from './dice.js'
import { MAKERS, type Maker, parametersOf } from './script-names.js'

const CLIENTS = ['c1-401dfa57', 'c2-401dfa57', 'java']
const HOLDERS = ['c1-401dfa57:1', 'c1-401dfa57:2', 'c2-401dfa57:1', 'java:1']
const WAITERS = ['c1-401dfa57:1:1', 'c1-401dfa57:2:3', 'c2-401dfa57:1:1', 'java:2']
const TICKETS = ['c1-401dfa57:11', 'c2-401dfa57:12', 'java:13', 'broken']
const DIGESTS = ['one', 'two', 'three'].map(fieldDigest)
const PERMITS = ['0', '1', '7', 'f'].map((digit) => digit.repeat(31)).map((digits, index) => `${digits}${index}`)
const LEASES: readonly Argument[] = [1, 2, 5, 20, 100, 1_000, 30_000, 300_000]
const BAD_NUMBERS = [
  '0',
  '-1',
  'x',
  '1.5',
  '',
  '1e3',
  ' 7',
  '0x10',
  '9007199254740993',
  '9223372036854775807',
  '9'.repeat(20),
]
/** In memory an expiry is exact up to 2^53 ms, the year 287396. */
const BAD_LEASES = BAD_NUMBERS.filter((number) => number !== '9007199254740993')

const ALL_FAMILIES = [
  ...['lock', 'fair-lock', 'fenced-lock', 'string-lock', 'faster-multi-lock', 'read-write'],
  ...['semaphore', 'permits', 'latch'],
]
/** Whose names a script uses, by its folder; others: their own. */
const FAMILIES: Readonly<Record<string, readonly string[]>> = {
  'read-lock': ['read-write'],
  'write-lock': ['read-write'],
  queue: ['read-write', 'lock'],
  permit: ['permits'],
  semaphore: ['semaphore', 'permits'],
  idempotency: ['semaphore', 'permits', 'latch'],
  time: ALL_FAMILIES,
  forced: ['lock', 'read-write', 'string-lock'],
  fleet: ALL_FAMILIES,
  job: ['lock'],
  'web-locks': ['read-write'],
}
const NAMES = ALL_FAMILIES.flatMap((family) => [`${family}:1`, `${family}:2`])

const CHANNELS = [lockChannel, readWriteChannel, semaphoreChannel, latchChannel]

/** Every channel that a script may publish on. */
export const ALL_CHANNELS: readonly string[] = [
  ...new Set(
    NAMES.flatMap((name) => CHANNELS.map((channel) => channel(name)).flatMap((one) => [one, watchChannel(one)])),
  ),
  ...['fair-lock:1', 'fair-lock:2'].flatMap((name) => HOLDERS.map((holder) => fairChannelPrefix(name) + holder)),
  ...CLIENTS.map((client) => INBOX_PREFIX + client),
]

/** The state that a choice may depend on. */
export interface Sight {
  /** Epoch ms. */
  readonly now: number
  /** A text in Redis, if there is one. */
  get(key: string): string | undefined
}

type Values = Readonly<Record<string, () => Argument | readonly Argument[]>>

/** What each parameter of a script may be. */
function valuesFor(dice: Dice, sight: Sight, name: string, script: string): Values {
  const isWriter = (): boolean => script.startsWith('write-lock/') || (script.startsWith('queue/') && dice.chance(0.5))
  const holder = (): string => dice.pick(HOLDERS) + (isWriter() ? ':write' : '')
  const flag = (): Argument => dice.between(0, 1)
  const lease = (): Argument => (dice.chance(0.03) ? dice.pick(BAD_LEASES) : dice.pick(LEASES))
  const named = (...parameters: string[]) => Object.fromEntries(parameters.map((parameter) => [parameter, () => name]))
  const leases = (...parameters: string[]) => Object.fromEntries(parameters.map((parameter) => [parameter, lease]))
  const flags = (...parameters: string[]) => Object.fromEntries(parameters.map((parameter) => [parameter, flag]))
  const operation = (): Argument => dice.between(1, 30)
  return {
    ...named('lock', 'group', 'semaphore', 'latch', 'key'),
    ...leases('leaseTimeMs', 'waitTimeMs', 'longestMs'),
    ...flags('isPoll', 'hasWaiters', 'isQueueing'),
    queue: () => (/^(queue|web-locks|semaphore|permit)\//.test(script) ? orderedQueue(name) : fairQueue(name)),
    clients: () => orderedClients(name),
    places: () => orderedQueue(name),
    deadlines: () => fairDeadlines(name),
    turnQueue: () => turnQueueKey(name),
    tokens: () => fencingTokenKey(name),
    replies: () => idempotencyKey(name, 'client'),
    leases: () => permitLeases(name),
    generation: () => (script.includes('permit') || name.startsWith('permits') ? name : generationKey(name)),
    prefix: () => (name.startsWith('lock:') ? '' : readHoldPrefix(name)),
    readHold: () => `${readHoldPrefix(name)}${dice.pick(HOLDERS)}:rwlock_timeout:1`,
    holder: () => (script === 'read-lock/inspect' && dice.chance(0.5) ? '' : holder()),
    cursor: () => dice.pick(['', '0', '0']),
    from: holder,
    count: () => (dice.chance(0.02) ? dice.pick([0, 10_001, 'x']) : dice.between(1, 4)),
    seen: () => dice.pick(['0', '3', '41', '900', '9223372036854775806']),
    mode: () => dice.pick(['read', 'write']),
    values: () => dice.some(DIGESTS),
    priority: () => dice.pick([0, 0, 1, -1, 1_000]),
    place: () => dice.pick(['', '', '1', '2.5']),
    maxWaiters: () => dice.pick([-1, -1, 0, 2]),
    queueTtlMs: () => dice.pick([0, 1, 50, 60_000]),
    timeToLiveMs: () => dice.pick([0, 0, 1, 50, 60_000]),
    channel: () => (dice.chance(0.1) ? '' : dice.pick(CHANNELS)(name)),
    channelPrefix: () => fairChannelPrefix(name),
    watchChannel: () => watchChannel(dice.pick(CHANNELS)(name)),
    message: () => dice.pick(['0', '1', 'é']),
    inboxPrefix: () => INBOX_PREFIX,
    waiter: () => dice.pick(script.startsWith('permit/release') ? ['', ...WAITERS] : WAITERS),
    ticket: () => (dice.chance(0.1) ? '' : dice.pick(TICKETS)),
    into: () => dice.pick(['create', 'any', '1', sight.get(generationKey(name)) ?? '1']),
    openedAt: () => (dice.chance(0.05) ? dice.pick([sight.now - 200_000, 0, 'x']) : sight.now),
    permits: () => (dice.chance(0.03) ? dice.pick([-1, 'x', 10 ** 15]) : dice.between(0, 3)),
    operation,
    operations: () => [operation(), operation()],
    mark: () => forcedKey(name, dice.pick(HOLDERS)),
    standsForMs: lease,
    form: () => dice.pick(['hash', 'hash', 'read-write', 'string']),
    content: () => dice.pick(['one', 'two', 'é']),
    markTtlMs: lease,
    audit: () => AUDIT_KEY,
    entry: () => dice.pick(['one', 'two', 'three', 'four']),
    lastKept: () => dice.between(0, 3),
    job: () => jobKey(name),
    jobs: () => JOBS_KEY,
    name: () => name,
    label: () => dice.pick(['one', 'é']),
    everyMs: () => dice.pick(['', '', 0, 1_000, 2_000_000_000]),
    ranMs: () => dice.pick([0, 0, 50]),
    exitCode: () => dice.pick(['', '', 0, 1]),
    mostJobs: () => dice.between(1, 2),
    names: () => WEB_LOCKS_KEY,
    ttlMs: () => dice.pick(LEASES),
    mostNames: () => dice.between(1, 3),
    skipped: () => dice.between(0, 2),
    most: () => dice.between(1, 3),
    mostWaiters: () => dice.between(1, 3),
    id: () => dice.pick(PERMITS),
    ids: () => dice.some(PERMITS),
  }
}

/** Arguments of scripts that take any number of keys: those for each of them, after those for all. */
const OF_MANY: Readonly<Record<string, (values: Values, keys: number) => Argument[]>> = {
  'faster-multi-lock/renew': (values, keys) =>
    repeat(keys, () => {
      const digests = one(values, 'values')
      return [...one(values, 'holder'), ...one(values, 'leaseTimeMs'), digests.length, ...digests]
    }),
  'lock/acquire-all': (values, keys) => [...one(values, 'leaseTimeMs'), ...repeat(keys, () => one(values, 'holder'))],
  'lock/renew-capped': (values, keys) => repeat(keys, () => each(values, 'holder', 'leaseTimeMs', 'longestMs')),
  'lock/renew': (values, keys) => repeat(keys, () => each(values, 'holder', 'leaseTimeMs')),
  'permit/renew': (values, keys) => repeat(keys, () => [one(values, 'ids').join(), ...one(values, 'leaseTimeMs')]),
  'read-lock/renew': (values, keys) => repeat(keys, () => each(values, 'holder', 'leaseTimeMs', 'prefix')),
  'string-lock/renew': (values, keys) => repeat(keys, () => each(values, 'holder', 'leaseTimeMs')),
}

function repeat(times: number, make: () => readonly Argument[]): Argument[] {
  return Array.from({ length: times }, make).flat()
}

function each(values: Values, ...parameters: string[]): Argument[] {
  return parameters.flatMap((parameter) => one(values, parameter))
}

function one(values: Values, parameter: string): Argument[] {
  const make = values[parameter]
  assert(make, `teach valuesFor() the parameter ${parameter}`)
  return [make()].flat() as Argument[]
}

/** What changes somebody else's lock runs under an operation, too, as other scripts always do. */
const RUN_ONCE = new Set(
  MAKERS.filter((make) => {
    const parameters = parametersOf(make)
    const { name } = make(...parameters.map(() => [])).script
    return /\/(release|release-queued|release-all|delete|update-lease)$/.test(name) && !parameters.includes('operation')
  }),
)

/** Makes calls of the scripts: all of them in turn, in an order that changes. */
export class RandomCalls {
  readonly #dice: Dice
  readonly #sight: Sight
  #turn: Maker[] = []

  constructor(dice: Dice, sight: Sight) {
    this.#dice = dice
    this.#sight = sight
  }

  next(): ScriptCall {
    const dice = this.#dice
    if (this.#turn.length === 0) this.#turn = [...MAKERS]
    const [make] = this.#turn.splice(dice.between(0, this.#turn.length - 1), 1) as [Maker]
    const callOf = RUN_ONCE.has(make) && dice.chance(0.5) ? () => this.#once(make) : () => this.#call(make)
    const call = dice.chance(0.15) ? this.#batch(callOf) : callOf()
    const sent = dice.chance(0.2) ? { ...call, script: forCluster(call.script) } : call
    return dice.chance(sent.script.expires ? 0.7 : 0.05) ? this.#inTime(sent) : sent
  }

  /** One that arrives in time, late, or before it was sent. */
  #inTime({ script, keys, args }: ScriptCall): ScriptCall {
    const { now } = this.#sight
    const deadline = this.#dice.chance(0.8)
      ? [now, 10_000_000]
      : this.#dice.pick([
          [now - 20_000, 10_000],
          [now + 10_000_000, 1_000],
          [0, 1_000],
        ])
    return { script: inTime(script), keys, args: [...args, ...deadline] }
  }

  /** A name of the script's own family, rarely another's. */
  #name(script: string): string {
    const dice = this.#dice
    const [folder = ''] = script.split('/')
    const family = dice.chance(0.04) ? dice.pick(ALL_FAMILIES) : dice.pick(FAMILIES[folder] ?? [folder])
    return `${family}:${dice.between(1, 2)}`
  }

  #call(make: Maker): ScriptCall {
    const parameters = parametersOf(make)
    const { name: script } = make(...parameters.map(() => [])).script
    const values = valuesFor(this.#dice, this.#sight, this.#name(script), script)
    if (parameters[0] !== 'keys') {
      return make(
        ...parameters.map((parameter) =>
          /^(values|ids|operations)$/.test(parameter) ? one(values, parameter) : one(values, parameter)[0],
        ),
      )
    }
    const args = OF_MANY[script]
    assert(args, `${script}: add its arguments to OF_MANY`)
    const keys = Array.from({ length: this.#dice.between(1, 3) }, () => this.#name(script))
    return make(script === 'permit/renew' ? keys.map(permitLeases) : keys, args(values, keys.length))
  }

  /** One under the number of an operation, as what is done on behalf of somebody else. */
  #once(make: Maker): ScriptCall {
    const call = this.#call(make)
    const values = valuesFor(this.#dice, this.#sight, call.keys[0] as string, call.script.name)
    const [key, number, openedAt] = ['replies', 'operation', 'openedAt'].map((name) => one(values, name)[0])
    return once(call, { key: key as string, number: number as number, openedAt: openedAt as number })
  }

  /** Several calls of a script as one; a call that does not fit goes alone. */
  #batch(callOf: () => ScriptCall): ScriptCall {
    const caller = (call: ScriptCall) => ({ call, resolve: () => {}, reject: () => {} })
    const batch = new Batch(caller(callOf()), 0)
    for (let more = this.#dice.between(1, 5); more > 0; more--) {
      const call = callOf()
      if (batch.fits(call, 0)) batch.add(caller(call))
    }
    return batch.call
  }
}

/** Somebody waits for a fair lock: alive until now or later, a fraction if it was woken, and maybe twice. */
function fairWaiter(dice: Dice): [string, ...string[]] {
  const name = `fair-lock:${dice.between(1, 2)}`
  const holder = dice.pick(HOLDERS)
  if (dice.chance(0.4)) return ['RPUSH', fairQueue(name), holder]
  return [
    'ZADD',
    fairDeadlines(name),
    dice.pick(['1', '0.5', `${Date.now() + 800}.5`, `${Date.now() + 8_000}`]),
    holder,
  ]
}

/** What somebody else does to a key. */
export function randomCommand(dice: Dice): [string, ...string[]] {
  if (dice.chance(0.3)) return fairWaiter(dice)
  const name = dice.pick(NAMES)
  const holder = dice.pick(HOLDERS)
  const number = dice.pick([...BAD_NUMBERS, '5', '0.1', '1e300'])
  const key = dice.pick([name, name, fairQueue(name), fairDeadlines(name), turnQueueKey(name), permitLeases(name)])
  return dice.pick<() => [string, ...string[]]>([
    () => ['DEL', key],
    () => ['DEL', name],
    () => ['DEL', dice.pick(['fair-lock:1', 'fair-lock:2', 'lock:1', 'lock:2'])],
    () => ['SET', name, dice.pick(['some text', number])],
    () => ['SET', fencingTokenKey(name), number],
    () => ['SET', `${readHoldPrefix(name)}${holder}:rwlock_timeout:${dice.between(1, 3)}`, '1', 'PX', '50'],
    () => ['HSET', name, dice.pick([holder, 'mode', 'name']), dice.pick([number, 'read', 'Ada'])],
    () => ['HSET', name, dice.pick(DIGESTS), holder, `${dice.pick(DIGESTS)}:${holder}:expire_time`, number],
    () => ['RPUSH', key, dice.pick([holder, dice.pick(TICKETS)])],
    () => ['RPUSH', turnQueueKey(`lock:${dice.between(1, 2)}`), dice.pick(TICKETS), dice.pick(TICKETS)],
    () => ['ZADD', permitLeases(`permits:${dice.between(1, 2)}`), String(Date.now() + dice.between(0, 5)), 'x'],
    () => ['ZADD', key, dice.pick(['0.5', '1', '1e300', '922337203685477']), dice.pick([holder, 'x'])],
    () => ['PEXPIRE', key, String(dice.pick([0, 1, 50, 60_000]))],
  ])()
}
