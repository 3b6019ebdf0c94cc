import type { RedisPort } from '../../../src/adapters/port.js'
import { sha1Of } from '../../../src/platform.js'
import { type Fault, MemoryPort, type Sent, type Server } from '../../../src/testing/memory-port.js'
import { knownScript } from '../../../src/testing/memory-redis.js'
import type { Clock } from '../../../src/util/clock.js'
import type { Dice } from '../../support/dice.js'
import type { FakeRedis } from '../../support/fakes/fake-redis.js'
import { FollowingPort } from './following-port.js'
import type { LateCopies } from './late-copies.js'
import { NodeConnection } from './node.js'
import type { FaultName } from './plan.js'
import { ReplicaSet } from './replica-set.js'

export const COMMAND_TIMEOUT_MS = 1_000

/** "Not now." */
const TRANSIENT_ERRORS = [
  'BUSY Redis is busy running a script',
  'LOADING Redis is loading the dataset in memory',
  "READONLY You can't write against a read only replica.",
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  'CLUSTERDOWN The cluster is down',
  'TRYAGAIN Multiple keys request during rehashing of slot',
]
/** Of servers, proxies and operators whose trouble will be over, too. */
const ERROR_REPLIES = [
  ...TRANSIENT_ERRORS,
  'NOREPLICAS Not enough good replicas to write.',
  'ERR injected',
  'ERR upstream failure',
  'ERR max number of clients reached',
  'NOAUTH Authentication required.',
  'UNBLOCKED client unblocked via CLIENT UNBLOCK',
]

/** What a link has to know of the life that it is part of. */
export interface Weather {
  readonly isStormy: boolean
  /** Whether anyone reads the notes. */
  readonly isNoted: boolean
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly copies: LateCopies
  allows(fault: FaultName): boolean
  note(text: string): void
}

type Sending = (command: readonly string[], send: () => Promise<unknown>) => Promise<unknown>

/** A connection that shows what it sends. */
class WatchedPort extends MemoryPort {
  readonly #onSend: Sending

  constructor(clock: Clock, server: Server, onSend: Sending) {
    super(clock, server)
    this.#onSend = onSend
  }

  override send(command: readonly string[], key: string): Promise<unknown> {
    return this.#onSend(command, () => super.send(command, key))
  }
}

/** A connection to Redis on which commands keep their order, and nearly anything else goes wrong. */
export class Link {
  /** All connections that there ever were, the present one last. */
  readonly ports: MemoryPort[] = []
  /** What the client uses: it follows the master if there are replicas. */
  readonly forClient: RedisPort
  readonly following: FollowingPort | undefined
  readonly #clock: Clock
  readonly #dice: Dice
  readonly #weather: Weather
  readonly #copyDice: Dice
  readonly #set: ReplicaSet | undefined
  /** Of the command that is being sent: whether the Redis client may send it again later. */
  #mayBeCopied = false
  #lastArrivalAt = 0
  #isDownUntil = 0
  /** Until when each observer does not reply to this client. */
  readonly #silentUntil = new Map<number, number>()

  constructor(clock: Clock, server: FakeRedis | ReplicaSet, dice: Dice, copyDice: Dice, weather: Weather) {
    this.#clock = clock
    this.#dice = dice
    this.#copyDice = copyDice
    this.#weather = weather
    this.#set = server instanceof ReplicaSet ? server : undefined
    if (server instanceof ReplicaSet) this.following = new FollowingPort(this.#accessTo(server))
    this.forClient = this.following ?? this.#open(server as FakeRedis)
  }

  get port(): MemoryPort {
    return this.ports.at(-1) as MemoryPort
  }

  /** Whether nothing gets through. */
  get isDown(): boolean {
    return this.#clock.now() < this.#isDownUntil
  }

  /** A new connection: what is still on its way on the old one may arrive after what is sent on the new one. */
  reconnect(): void {
    this.#lastArrivalAt = 0
    this.port.reconnect()
  }

  /** Nothing gets through for a while. */
  goDown(ms: number): void {
    this.#isDownUntil = this.#clock.now() + ms
    this.port.isDeaf = true
  }

  /** Some of those who know which server is the master do not reply for a while. @param observers  their indexes */
  silence(observers: readonly number[], ms: number): void {
    if (!this.following?.wasTold) return
    for (const index of observers) this.#silentUntil.set(index, this.#clock.now() + ms)
  }

  #open(server: FakeRedis | NodeConnection): MemoryPort {
    const watched: Server = {
      connect: (receive) => server.connect(receive),
      execute: (command) => {
        const node = server instanceof NodeConnection ? server.node : server
        return this.#weather.copies.carryOut(
          command,
          () => named(command),
          node,
          () => server.execute(command),
        )
      },
    }
    const port = new WatchedPort(this.#clock, watched, (command, send) => this.#send(command, send, server))
    port.fault = (sent) => this.#faultOf(sent)
    this.#lastArrivalAt = 0
    this.ports.push(port)
    return port
  }

  #send(
    command: readonly string[],
    send: () => Promise<unknown>,
    server: FakeRedis | NodeConnection,
  ): Promise<unknown> {
    this.#mayBeCopied = false
    const reply = send()
    if (this.#mayBeCopied) this.#copy(command, server)
    return reply
  }

  /** It arrives when it suits it, on another connection. */
  #copy(command: readonly string[], server: FakeRedis | NodeConnection): void {
    const dice = this.#copyDice
    const { copies, clock } = this.#weather
    const set = this.#set
    const connection = server instanceof NodeConnection ? server : undefined
    const isForMaster = dice.chance(0.5)
    const target = (): FakeRedis | NodeConnection => {
      if (!set || !connection) return server
      return new NodeConnection(isForMaster ? set.master : connection.node)
    }
    const copy = {
      what: named(command),
      sentAt: clock.now(),
      server: set ? undefined : (server as FakeRedis),
      command,
      arrive: () => target().execute(command),
    }
    // While the next ones hold the lock; while their caller has just left; and when nobody is left.
    const delays: readonly [least: number, most: number][] = [
      [0, 500],
      [0, 500],
      [500, 4_000],
      [4_000, 20_000],
      [20_000, 120_000],
    ]
    copies.add(copy, dice.between(...dice.pick(delays)))
  }

  #accessTo(set: ReplicaSet): ConstructorParameters<typeof FollowingPort>[0] {
    const isDown = (): boolean => this.isDown
    return {
      clock: this.#clock,
      dice: this.#dice,
      set,
      get isDown() {
        return isDown()
      },
      isSilent: (observer) => this.#clock.now() < (this.#silentUntil.get(observer) ?? 0),
      open: (connection) => this.#open(connection),
      note: (text) => this.#weather.note(text),
    }
  }

  #faultOf(sent: Sent): Fault {
    const fault = this.#chosenFault(sent)
    const { lost, failsWith, resentMs } = fault
    // What was answered, and not sent again before that, no Redis client sends again.
    const isResent = (lost ?? failsWith ?? resentMs) !== undefined
    if (isResent && isCopied(sent.name) && this.#weather.allows('late copy'))
      this.#mayBeCopied ||= this.#copyDice.chance(0.5)
    if (this.#weather.isNoted)
      this.#weather.note(`${sent.name} ${[...sent.keys, ...sent.args].join(' ')}${described(fault)}`)
    return fault
  }

  #chosenFault({ name }: Sent): Fault {
    const dice = this.#dice
    const { isStormy } = this.#weather
    const now = this.#clock.now()
    if (this.isDown) return { lost: 'request' }
    const requestMs = Math.max(this.#travelMs(), this.#lastArrivalAt - now)
    if (name === 'message') {
      const isLost = isStormy && dice.chance(0.1) && this.#weather.allows('message lost')
      return { requestMs: this.#travelMs(), lost: isLost ? 'reply' : undefined }
    }
    this.#lastArrivalAt = now + requestMs
    const fault = { requestMs, replyMs: this.#travelMs() }
    if (!isStormy || dice.chance(0.8)) return fault
    const failsWith = 'Connection is closed'
    // A client that must not ask replicas does without them.
    const isQuestion = name === 'INFO' || name === 'WAIT' || name === 'CLUSTER'
    const [what, changes] = dice.pick<readonly [FaultName, Fault]>(
      name === 'SUBSCRIBE'
        ? [
            ['given up after it was sent', { failsWith }],
            ['reply lost', { lost: 'reply' }],
          ]
        : [
            ['request lost', { lost: 'request' }],
            ['reply lost', { lost: 'reply' }],
            ['given up before it was sent', { failsWith, lost: 'request' }],
            ['given up after it was sent', { failsWith }],
            ['error reply', { errorReply: dice.pick(isQuestion ? TRANSIENT_ERRORS : ERROR_REPLIES) }],
            ['sent twice', { resentMs: dice.between(0, 500) }],
          ],
    )
    if (!this.#weather.allows(what)) return fault
    this.#lastArrivalAt += changes.resentMs ?? 0
    return { ...fault, ...changes }
  }

  #travelMs(): number {
    const dice = this.#dice
    const isSwift = !this.#weather.isStormy || dice.chance(0.85)
    const slowMs = dice.between(1, dice.chance(0.8) ? 200 : 2 * COMMAND_TIMEOUT_MS)
    return isSwift || !this.#weather.allows('delay') ? dice.between(1, 5) : slowMs
  }
}

/** Subscriptions are of a connection, and what asks changes nothing. */
function isCopied(name: string): boolean {
  return !/^(message|SUBSCRIBE|UNSUBSCRIBE|INFO|WAIT|CLUSTER|PING|EXISTS)$/.test(name)
}

/** A command as one reads it. */
function named(command: readonly string[]): string {
  const [verb, source = '', count, ...words] = command
  const script = verb === 'EVALSHA' ? knownScript(source) : verb === 'EVAL' ? knownScript(sha1Of(source)) : undefined
  if (!script) return command.join(' ')
  return [script.script.name, ...words.slice(0, Number(count))].join(' ')
}

function described({ requestMs = 0, replyMs = 0, lost, failsWith, errorReply, resentMs }: Fault): string {
  const parts = [
    requestMs > 5 ? `arrives after ${requestMs} ms` : '',
    replyMs > 5 ? `reply takes ${replyMs} ms` : '',
    lost ? `${lost} lost` : '',
    failsWith ?? '',
    errorReply ?? '',
    resentMs === undefined ? '' : `sent again after ${resentMs} ms`,
  ]
  const text = parts.filter((part) => part !== '').join(', ')
  return text === '' ? '' : `  ✗ ${text}`
}
