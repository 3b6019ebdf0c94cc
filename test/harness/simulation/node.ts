import { sha1Of } from '../../../src/platform.js'
import { ReplyError } from '../../../src/testing/keyspace.js'
import { knownScript, type Receiver } from '../../../src/testing/memory-redis.js'
import type { Clock } from '../../../src/util/clock.js'
import { FakeRedis } from '../../support/fakes/fake-redis.js'
import { patched } from '../../support/patched.js'
import type { ReplicationStream } from './replication-stream.js'

/** What a script may call that changes keys. */
const WRITES = new Set(
  'del decr decrby hdel hset incr incrby lpop lpush lrem ltrim pexpire rpush set zadd zrem'.split(' '),
)
const READONLY = "READONLY You can't write against a read only replica."
const NOT_A_MASTER = 'ERR WAIT cannot be used with replica instances.'
const UNBLOCKED = 'UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)'

/** What one command changed, as replicas get it. */
export interface Write {
  /** When, ms on the clock. */
  readonly at: number
  /** The script, with the keys and arguments of all its calls. */
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
  readonly commands: readonly (readonly [name: string, args: readonly string[]])[]
}

type Time = Pick<Clock, 'now' | 'after'>

/** The time of a server: while it repeats what a master did, it is the time when that happened. */
class ServerTime {
  readonly #clock: Time
  repeating: number | undefined

  constructor(clock: Time) {
    this.#clock = clock
  }

  now(): number {
    return this.repeating ?? this.#clock.now()
  }
}

interface Waiter {
  settle(acknowledged: number | Error): void
}

/** A server that replicates to others, or from another: it may freeze, die, come back, and change its role. */
export class Node extends FakeRedis {
  readonly name: string
  /** All that it ever wrote, its own and what it got from masters, in order. */
  readonly writes: Write[] = []
  /** To its replicas. Those that were closed by their replicas it takes for connected until it notices. */
  streams: ReplicationStream[] = []
  /** From its master; undefined: it is one, or believes so. */
  source: ReplicationStream | undefined
  /** Settles when it continues; undefined: it is not frozen. */
  frozen: Promise<void> | undefined
  isDown = false
  /** Until then it gets the data of its master, ms on the clock. */
  loadingUntil = 0
  /** What it replies to clients. */
  refusal: string | undefined
  /** CLUSTER SLOTS. */
  slots: () => unknown = () => []
  /** Called for each write. */
  onWrite: (write: Write) => void = () => {}
  /** Closes the connections of clients. */
  readonly connections = new Set<() => void>()
  readonly #clock: Time
  readonly #time: ServerTime
  readonly #waiters = new Set<Waiter>()
  #runs = 1
  #thaw: () => void = () => {}
  #changes: [name: string, args: readonly string[]][] = []

  constructor(name: string, clock: Time, epochAt: number) {
    const time = new ServerTime(clock)
    super(time, epochAt)
    this.name = name
    this.#clock = clock
    this.#time = time
    patched(this.keyspace, 'execute', (original) => (command, args) => {
      if (!WRITES.has(command.toLowerCase())) return original.call(this.keyspace, command, args)
      if (time.repeating !== undefined) return original.call(this.keyspace, command, args)
      if (this.source) throw new ReplyError(READONLY)
      this.#changes.push([command, args])
      return original.call(this.keyspace, command, args)
    })
  }

  get port(): number {
    return 7_000 + Number(this.name.slice(1))
  }

  get runId(): string {
    return `${this.name}-run-${this.#runs}`
  }

  override execute(command: readonly string[]): unknown {
    const now = this.#clock.now()
    this.source?.advance(now)
    if (now < this.loadingUntil) throw new ReplyError('LOADING Redis is loading the dataset in memory')
    this.#changes = []
    try {
      return super.execute(command)
    } finally {
      if (this.#changes.length > 0) this.#add(now, command)
    }
  }

  #add(at: number, [verb, source = '', count, ...words]: readonly string[]): void {
    const script = knownScript(verb === 'EVAL' ? sha1Of(source) : source)?.script.name ?? ''
    const keys = words.slice(0, Number(count))
    const write = { at, script, keys, args: words.slice(keys.length), commands: this.#changes }
    this.writes.push(write)
    for (const stream of this.streams) stream.add(at)
    this.onWrite(write)
  }

  /** Does what the master did, at the time of the master. */
  repeat(write: Write): void {
    this.#time.repeating = write.at
    this.keyspace.tick()
    for (const [name, args] of write.commands) this.keyspace.execute(name, args)
    this.#time.repeating = undefined
    this.keyspace.tick()
    this.writes.push(write)
  }

  /** INFO. */
  info(section: string): string {
    if (section === 'server') return `# Server\r\nrun_id:${this.runId}\r\n`
    const role = this.source ? 'slave' : 'master'
    return `# Replication\r\nrole:${role}\r\nconnected_slaves:${this.source ? 0 : this.streams.length}\r\n`
  }

  /** WAIT for replicas that have the first `offset` writes. */
  wait(offset: number, count: number, timeoutMs: number): Promise<number> {
    if (this.source) return Promise.reject(new ReplyError(NOT_A_MASTER))
    const until = this.#clock.now() + timeoutMs
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        settle: (reply) => {
          this.#waiters.delete(waiter)
          if (typeof reply === 'number') resolve(reply)
          else reject(reply)
        },
      }
      this.#waiters.add(waiter)
      const check = (): void => {
        if (!this.#waiters.has(waiter)) return
        if (this.frozen !== undefined) return void this.frozen.then(check)
        const now = this.#clock.now()
        const times = this.streams.map((stream) => stream.acknowledgedAt(offset))
        const acknowledged = times.filter((at) => at <= now).length
        if (acknowledged >= count || now >= until) waiter.settle(acknowledged)
        else this.#clock.after(Math.min(until, ...times.filter((at) => at > now)) - now, check)
      }
      check()
    })
  }

  freeze(): void {
    this.frozen = new Promise((resolve) => {
      this.#thaw = () => {
        this.frozen = undefined
        resolve()
      }
    })
  }

  thaw(): void {
    this.#thaw()
  }

  kill(): void {
    this.isDown = true
    this.#waiters.clear()
    this.closeStreams()
    this.closeConnections()
  }

  /** Its replicas get nothing any more, which it does not notice. */
  closeStreams(): void {
    for (const stream of this.streams) stream.close(this.#clock.now())
  }

  /** It notices which replicas have left: to those that it only cannot reach, it is connected until a time-out. */
  dropStreams(): void {
    this.streams = this.streams.filter(({ isOpen }) => isOpen)
  }

  /** It is there again, with its data, and believes to be what it was. */
  restart(): void {
    this.isDown = false
    this.#runs++
    this.streams = []
    this.forgetScripts()
  }

  promote(): void {
    const now = this.#clock.now()
    this.source?.advance(now)
    this.source?.close(now)
    this.source = undefined
    this.forgetScripts() // replicas get no scripts
  }

  /** From now on it is a replica; what its master does not have is lost. */
  follow(master: Node, newStream: (syncedAt: number) => ReplicationStream, syncMs: number): void {
    const isDemoted = this.source === undefined
    const now = this.#clock.now()
    this.source?.advance(now)
    this.source?.close(now)
    this.refusal = undefined
    const syncedAt = now + syncMs
    const last = this.writes.length - 1
    if (last >= 0 && master.writes[last] !== this.writes[last]) {
      this.flush()
      this.writes.length = 0
      this.loadingUntil = syncedAt
    }
    this.streams = []
    this.source = newStream(syncedAt)
    master.streams.push(this.source)
    for (const waiter of [...this.#waiters]) waiter.settle(new ReplyError(UNBLOCKED))
    if (isDemoted) this.closeConnections()
  }

  closeConnections(): void {
    for (const close of [...this.connections]) close()
  }
}

/** A connection of a client to a node, on which WAIT holds up what comes after it. */
export class NodeConnection {
  readonly node: Node
  #blocked: Promise<void> | undefined
  /** How many writes there were after the last command. */
  #offset = 0

  constructor(node: Node) {
    this.node = node
  }

  connect(receive: Receiver): () => void {
    return this.node.connect(receive)
  }

  execute(command: readonly string[]): unknown {
    const { node } = this
    if (node.isDown) return new Promise(() => {})
    const blocked = this.#blocked ?? node.frozen
    if (blocked) {
      const reply = blocked.then(() => this.execute(command))
      reply.catch(() => {})
      return reply
    }
    const [verb, ...args] = command
    if (verb === 'INFO') return node.info(args[0] ?? '')
    if (verb === 'CLUSTER') return node.slots()
    if (verb === 'WAIT') return this.#wait(Number(args[0]), Number(args[1]))
    if (node.refusal !== undefined) throw new ReplyError(node.refusal)
    try {
      return node.execute(command)
    } finally {
      this.#offset = node.writes.length
    }
  }

  #wait(count: number, timeoutMs: number): Promise<number> {
    const reply = this.node.wait(this.#offset, count, timeoutMs)
    const end = (): void => {
      this.#blocked = undefined
    }
    this.#blocked = reply.then(end, end)
    return reply
  }
}
