import { SentinelMasterStatus } from '../../../src/adapters/sentinel-master-status.js'
import { Replication } from '../../../src/delivery/replica-acks.js'
import { Hold } from '../../../src/locks/hold.js'
import { PlainKind } from '../../../src/locks/kinds/plain.js'
import { Lease } from '../../../src/locks/lease.js'
import { sha1Of } from '../../../src/platform.js'
import { SemaphoreAcquisition } from '../../../src/synchronizers/semaphore-acquisition.js'
import { Keyspace } from '../../../src/testing/keyspace.js'
import { MemoryPort } from '../../../src/testing/memory-port.js'
import { knownScript, MemoryRedis } from '../../../src/testing/memory-redis.js'
import { ThreadClient } from '../../../src/watchdog/thread-client.js'
import { Owner } from '../../../src/wire/holder.js'
import { type Command, command, patched, type Undo } from '../../support/patched.js'
import { heldIn } from './holders.js'
import type { Topology, WorkloadName } from './plan.js'
import { ProcessClock } from './process-clock.js'

/** A lock with an error, which the simulation must find. */
export interface Control {
  readonly workload: WorkloadName
  readonly topology?: Topology
  readonly plant: () => Undo
  /** What it must be found by. */
  readonly finding: RegExp
}

/** Two hold it, or one of them does not any more in Redis, whichever is found first. */
const OVERLAP = / and .* hold |does not in Redis/
const NOT_IN_REDIS = /does not in Redis/
const TOO_MANY = /\d hold permits, not 2/

const nothing: (original: Command) => Command = () => () => 0
/** Where the key, or the first key, matches. */
const at =
  (pattern: RegExp, patch: (original: Command) => Command) =>
  (original: Command): Command =>
  (keys, args) =>
    pattern.test(args[0] ?? '') ? patch(original)(keys, args) : original(keys, args)

const plainKind = PlainKind.prototype
const lease = Lease.prototype

/** What processes take for the time. */
function timeOf(now: (clock: ProcessClock, original: () => number) => number): () => Undo {
  return () =>
    patched(
      ProcessClock.prototype,
      'now',
      (original) =>
        function (this: ProcessClock) {
          return now(this, original)
        },
    )
}

/** What Redis is asked to do instead. */
function instead(change: (redis: MemoryRedis, command: readonly string[]) => readonly string[]): () => Undo {
  return () =>
    patched(
      MemoryRedis.prototype,
      'execute',
      (original) =>
        function (this: MemoryRedis, one) {
          return original.call(this, change(this, one))
        },
    )
}

/** As if a script that is sent without an owner named whoever holds the lock when it arrives, and had no protection. */
function freesAnyone(redis: MemoryRedis, command: readonly string[]): readonly string[] {
  const [verb = '', source = '', count, ...words] = command
  const known = verb.startsWith('EVAL') ? knownScript(verb === 'EVAL' ? sha1Of(source) : source) : undefined
  if (!known?.isOnce || known.isBatch) return command
  const keys = words.slice(0, Number(count) - 1)
  const args = words.slice(Number(count), known.isInTime ? -4 : -2)
  const present = [...heldIn(redis).values()].find(({ resource }) => resource === keys[0])?.holder
  const named = args.map((word) => (present !== undefined && /^[\w-]+:\d+$/.test(word) ? present : word))
  return ['EVAL', known.script.text, String(keys.length), ...keys, ...named]
}

/** By what is wrong. */
export const CONTROLS: Readonly<Record<string, Control>> = {
  'Redis grants a lock that another holds': {
    workload: 'lock',
    finding: OVERLAP,
    plant: command('hexists', () => () => 1),
  },
  'Redis finds no lock where there is one': {
    workload: 'non-reentrant lock',
    finding: OVERLAP,
    plant: command('pttl', () => () => -2),
  },
  'a refusal is read as a grant': {
    workload: 'spin lock',
    finding: NOT_IN_REDIS,
    plant: () => patched(plainKind, 'parseReply', () => () => ({ isGranted: true })),
  },
  'a lease is half as long in Redis': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: command(
      'pexpire',
      (original) =>
        (keys, [key = '', ms = '', ...rest]) =>
          original(keys, [key, String(Math.floor(Number(ms) / 2)), ...rest]),
    ),
  },
  'a lease never ends in Redis': {
    workload: 'lock',
    finding: /something never settles/,
    plant: command('pexpire', () => () => 1),
  },
  'Redis ends a lease early': {
    workload: 'fenced lock',
    finding: /does not in Redis|shortened the lease/,
    plant: () =>
      patched(
        Keyspace.prototype,
        'expire',
        (original) =>
          function (this: Keyspace, key, endsAt) {
            return original.call(this, key, endsAt - 300)
          },
      ),
  },
  'a hold does not end at its deadline': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: () => {
      const isLive = Object.getOwnPropertyDescriptor(Hold.prototype, 'isLive') as PropertyDescriptor
      Object.defineProperty(Hold.prototype, 'isLive', {
        ...isLive,
        get(this: Hold) {
          return !this.signal.aborted
        },
      })
      return () => Object.defineProperty(Hold.prototype, 'isLive', isLive)
    },
  },
  'a lease counts from its reply': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: () =>
      patched(
        lease,
        'begin',
        (original) =>
          function (this: Lease, terms, _sentAt, isWanted) {
            return original.call(this, terms, this.context.clock.now(), isWanted)
          },
      ),
  },
  'a fair lock is not freed': {
    workload: 'fair lock',
    finding: /did not become free within 4000 ms/,
    plant: command('del', nothing),
  },
  'a fencing token does not rise': {
    workload: 'fenced lock',
    finding: /the fencing token of/,
    plant: command(
      'incr',
      (original) =>
        (keys, [key = '']) =>
          keys.read(key, 'string') === undefined ? original(keys, [key]) : 1,
    ),
  },
  'a read is granted beside a write': {
    workload: 'read-write lock',
    finding: OVERLAP,
    plant: command(
      'hget',
      (original) => (keys, args) =>
        args[1] === 'mode' && original(keys, args) !== null ? 'read' : original(keys, args),
    ),
  },
  'readers get in beside a writer, in order': {
    workload: 'read-write lock in order',
    finding: OVERLAP,
    plant: command(
      'hget',
      (original) => (keys, args) =>
        args[1] === 'mode' && original(keys, args) !== null ? 'read' : original(keys, args),
    ),
  },
  'a dead waiter keeps its place': {
    workload: 'lock in order',
    finding: /something never settles|did not become free within 4000 ms/,
    plant: command(
      'zrem',
      at(/:places$/, () => () => 0),
    ),
  },
  'a value is granted to two': {
    workload: 'multi-lock of values',
    finding: OVERLAP,
    plant: command(
      'hget',
      at(/^group$/, () => () => null),
    ),
  },
  'a string lock is overwritten': {
    workload: 'string lock',
    finding: OVERLAP,
    plant: command(
      'get',
      at(/^(a|\{a\})$/, () => () => null),
    ),
  },
  'a multi-lock is granted although one of its locks is held': {
    workload: 'multi-lock',
    finding: OVERLAP,
    plant: command('pttl', () => () => -2),
  },
  'a red lock takes refusals for grants': {
    workload: 'red lock',
    finding: OVERLAP,
    plant: () => patched(plainKind, 'parseReply', () => () => ({ isGranted: true })),
  },
  'a permit is not counted': { workload: 'permits', finding: TOO_MANY, plant: command('decrby', nothing) },
  'a permit is not given back': {
    workload: 'permits',
    finding: /did not have enough free permits/,
    plant: command('zrangebyscore', () => () => []),
  },
  'a permit in order is not counted': {
    workload: 'permits in order',
    finding: TOO_MANY,
    plant: command('decrby', nothing),
  },
  'a waiter for permits that is gone keeps its place': {
    workload: 'permits in order',
    finding: /something never settles|did not have enough free permits/,
    plant: command(
      'zrem',
      at(/:places$/, () => () => 0),
    ),
  },
  'a semaphore in order does not count': {
    workload: 'semaphore in order',
    finding: TOO_MANY,
    plant: command('decrby', nothing),
  },
  'a semaphore does not count': { workload: 'semaphore', finding: TOO_MANY, plant: command('decrby', nothing) },
  'an operation on a semaphore counts twice': {
    workload: 'semaphore',
    finding: /hold permits, not 2|counted once more/,
    plant: command(
      'hget',
      at(/^holdfast_idempotency:/, () => () => null),
    ),
  },
  'what a lost reply took is not given back': {
    workload: 'semaphore',
    finding: /permits are conserved/,
    plant: () => patched(SemaphoreAcquisition.prototype, 'undo', () => () => {}),
  },
  'a latch counts twice': {
    workload: 'latch',
    finding: /opened after/,
    plant: command(
      'hget',
      at(/^holdfast_idempotency:/, () => () => null),
    ),
  },
  'a grant counts before a replica has it': {
    workload: 'string lock',
    topology: 'Sentinel',
    finding: OVERLAP,
    plant: () => patched(Replication.prototype, 'confirm', () => async () => {}),
  },
  'a master that was replaced is trusted': {
    workload: 'lock',
    topology: 'Sentinel',
    finding: NOT_IN_REDIS,
    plant: () =>
      patched(SentinelMasterStatus.prototype, 'of', () => async () => ({
        replicas: 2,
        isConfirmed: true,
        isPartial: false,
      })),
  },
  'a clock is slower than allowed': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: timeOf((clock, original) => 0.95 * original.call(clock)),
  },
  'the time that a machine was suspended does not count': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: timeOf((clock) => clock.monotonic()),
  },
  'leases end by the wall clock': {
    workload: 'lock',
    finding: /something never settles|does not in Redis/,
    plant: timeOf((clock) => clock.wall()),
  },
  'an interrupted holder gets no grace': {
    workload: 'lock',
    finding: OVERLAP,
    plant: () =>
      patched(
        lease,
        'endGracefully',
        (original) =>
          function (this: Lease, mark) {
            return original.call(this, { ...mark, graceMs: 0 })
          },
      ),
  },
  'a forced release frees whoever holds the lock when it arrives': {
    workload: 'string lock',
    finding: /does not in Redis|whom it does not name|freed the lock of/,
    plant: instead(freesAnyone),
  },
  'a command takes the lock however late it arrives': {
    workload: 'lock',
    finding: /took .* for nobody/,
    plant: instead((_, command) => {
      const [verb = '', source = ''] = command
      const known = verb.startsWith('EVAL') ? knownScript(verb === 'EVAL' ? sha1Of(source) : source) : undefined
      return known?.isInTime ? [...command.slice(0, -1), '600000'] : command
    }),
  },
  'an owner takes again what it has released': {
    workload: 'read-write lock',
    finding: /does not in Redis|freed the lock of|something never settles/,
    plant: () => {
      const isSpent = Object.getOwnPropertyDescriptor(Owner.prototype, 'isSpent') as PropertyDescriptor
      Object.defineProperty(Owner.prototype, 'isSpent', { ...isSpent, get: () => false })
      const undo = patched(Owner.prototype, 'retire', () => () => {})
      return () => {
        undo()
        Object.defineProperty(Owner.prototype, 'isSpent', isSpent)
      }
    },
  },
  'every lease is taken for renewed by the watchdog thread': {
    workload: 'lock',
    finding: NOT_IN_REDIS,
    plant: () =>
      patched(ThreadClient.prototype, 'catchUp', () => (one) => one.renewed((one as Lease).context.clock.now())),
  },
  'a subscription is left': {
    workload: 'lock',
    finding: /no subscription is left/,
    plant: () => patched(MemoryPort.prototype, 'unsubscribe', () => async () => {}),
  },
}
