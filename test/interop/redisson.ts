import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { tieToThisProcess } from '../support/processes/process-exit.js'
import { TooLateError } from '../support/wait-until.js'
import { atLeast } from './node-lock.js'

/** A plain value, as the JSON of the Java side has it. An object that Java keeps is null here. */
export type JavaValue = null | boolean | number | string | JavaValue[]

/** What Java threw. */
export class JavaError extends Error {
  /** Full name of the exception's class. */
  readonly className: string

  constructor(className: string, message: string | null) {
    super(`${className}: ${message}`)
    this.className = className
  }
}

/** Some versions throw if a pause of the machine leaves too little of the wait to subscribe: the caller is refused either way. */
export function refusedUnsubscribed(error: Error): false {
  if (error.message.includes('Unable to acquire subscription lock')) return false
  throw error
}

/** For an argument of type long, int, Duration, TimeUnit, or several locks or texts. Plain text is a String. */
export type JavaArgument = string & { readonly typed: unique symbol }
const typed = (letter: string, text = ''): JavaArgument => `${letter}${text}` as JavaArgument
export const long = (value: number): JavaArgument => typed('l', String(value))
export const int = (value: number): JavaArgument => typed('i', String(value))
export const duration = (ms: number): JavaArgument => typed('d', String(ms))
export const text = (value: string): JavaArgument => typed('s', value)
export const locks = (names: string[]): JavaArgument => typed('a', names.join(','))
export const texts = (values: readonly string[]): JavaArgument => typed('c', values.map(encodeURIComponent).join(','))
export const MILLISECONDS = typed('u')

// A small heap and the quick compiler: the JVM is to start fast and to leave the cores to others. The packages are for
// Redisson of the time before modules.
const JVM = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData', '-Xshare:auto', '-Xmx256m']
const OPENED = ['java.base/java.lang', 'java.base/java.util', 'java.base/java.nio', 'java.base/sun.nio.ch']
const LOG = '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'

const START_MS = 60_000
const CALL_MS = 30_000

/** A JVM with one version of Redisson. It ends with this process. */
export class Jvm implements AsyncDisposable {
  readonly version: string
  readonly #process: ChildProcessWithoutNullStreams
  readonly #calls = new Map<number, PromiseWithResolvers>()
  #lastId = 0
  #stderr = ''
  #names = 0

  /**
   * @param built where scripts/verify/interop.mjs put the versions
   * @param env   variables besides those of this process
   */
  static async start(built: string, version: string, env: Readonly<Record<string, string>> = {}): Promise<Jvm> {
    const jvm = new Jvm(built, version, env)
    try {
      const started = await jvm.#replyTo(0, START_MS)
      if (started !== version) throw new Error(`the JVM runs Redisson ${String(started)}, not ${version}`)
    } catch (error) {
      await jvm.stop()
      throw error
    }
    return jvm
  }

  private constructor(built: string, version: string, env: Readonly<Record<string, string>>) {
    this.version = version
    const classPath = [join(built, version, 'classes'), join(built, version, 'lib', '*')].join(':')
    const opens = OPENED.flatMap((packages) => ['--add-opens', `${packages}=ALL-UNNAMED`])
    this.#process = spawn('java', [...JVM, ...opens, LOG, '-cp', classPath, 'interop.Peer'], {
      env: { ...process.env, ...env },
    })
    tieToThisProcess(this.#process)
    this.#process.stdin.on('error', () => {})
    this.#process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-20_000)
    })
    const failAll = (why: string): void => {
      for (const call of this.#calls.values()) call.reject(new Error(`${why}\n${this.#stderr}`))
    }
    this.#process.on('error', (error) => failAll(error.message))
    this.#process.once('close', (code, signal) => failAll(`the JVM ended (${signal ?? code})`))
    createInterface(this.#process.stdout).on('line', (line) => this.#receive(line))
  }

  /** What it logged (warnings and errors). */
  get log(): string {
    return this.#stderr
  }

  /** A RedissonClient, with the UUID that it puts into holders. */
  async open(url: string, lockWatchdogTimeoutMs: number): Promise<Redisson> {
    const name = this.newName('client')
    await this.send('main', 'open', [name, url, String(lockWatchdogTimeoutMs)])
    return new Redisson(this, name, String(await this.call('main', name, 'getId')))
  }

  /** A RedissonClient as a configuration file says. */
  async openFile(path: string): Promise<Redisson> {
    const name = this.newName('client')
    await this.send('main', 'openFile', [name, path])
    return new Redisson(this, name, String(await this.call('main', name, 'getId')))
  }

  /**
   * Calls a method on the Java thread of that name: the same name is the same owner.
   * @param as  the name under which the result is kept, if it is an object
   */
  async call(thread: string, target: string, method: string, args: JavaArgument[] = [], as = '-'): Promise<JavaValue> {
    return await this.send(thread, 'call', [as, target, method, ...args])
  }

  /** One command of interop/Peer.java. */
  async send(thread: string, verb: string, words: string[], timeoutMs = CALL_MS): Promise<JavaValue> {
    const id = ++this.#lastId
    const reply = this.#replyTo(id, timeoutMs, `${verb} ${words.join(' ')}`)
    this.#process.stdin.write(`${[String(id), thread, verb, ...words].map(encodeURIComponent).join(' ')}\n`)
    return await reply
  }

  newName(prefix: string): string {
    return `${prefix}-${++this.#names}`
  }

  /** SIGKILL: holds and waiters end as in a crash. Stopping twice is harmless. */
  async stop(): Promise<void> {
    this.kill()
    if (this.#process.exitCode === null && this.#process.signalCode === null) await once(this.#process, 'exit')
  }

  /** SIGKILL, without waiting for the end. */
  kill(): void {
    this.#process.kill('SIGKILL')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #replyTo(id: number, timeoutMs: number, command = 'start'): Promise<JavaValue> {
    const call = withResolvers()
    const giveUp = (): void =>
      call.reject(new TooLateError(`no reply from Java in ${timeoutMs} ms: ${command}`, giveUp))
    const timer = setTimeout(giveUp, timeoutMs)
    this.#calls.set(id, call)
    const done = (): void => {
      clearTimeout(timer)
      this.#calls.delete(id)
    }
    call.promise.then(done, done) // also when nobody waits for a lock that a crash ended
    return call.promise
  }

  #receive(line: string): void {
    const reply = JSON.parse(line) as { id: number; value?: JavaValue; error?: string; message?: string | null }
    const call = this.#calls.get(reply.id)
    if (reply.error === undefined) call?.resolve(reply.value ?? null)
    else call?.reject(new JavaError(reply.error, reply.message ?? null))
  }
}

/** The result of `Redisson.create`. */
export class Redisson {
  readonly jvm: Jvm
  /** The first half of its holders. */
  readonly id: string
  /** What it is kept as. */
  readonly kept: string

  constructor(jvm: Jvm, name: string, id: string) {
    this.jvm = jvm
    this.kept = name
    this.id = id
  }

  /** An object of this client, by its getter: `getLock`, or `getReadWriteLock` and then `readLock`. */
  async get(getters: string | readonly string[], ...args: JavaArgument[]): Promise<JavaObject> {
    const [first = '', ...rest] = typeof getters === 'string' ? [getters] : getters
    let object = this.jvm.newName(first)
    await this.jvm.call('main', this.kept, first, args, object)
    for (const getter of rest) {
      const owner = object
      object = this.jvm.newName(getter)
      await this.jvm.call('main', owner, getter, [], object)
    }
    return new JavaObject(this.jvm, object)
  }

  /** A lock as RLock has it. */
  async lock(getters: string | readonly string[], ...args: JavaArgument[]): Promise<JavaLock> {
    const { kept: name } = await this.get(getters, ...args)
    return new JavaLock(this, name)
  }

  /** Ends its connections; what it holds stays until its lease ends. */
  async shutdown(): Promise<void> {
    await this.jvm.call('main', this.kept, 'shutdown')
  }
}

/** Any object of Redisson, one for all threads: semaphores, latches, maps. */
export class JavaObject {
  readonly jvm: Jvm
  /** What it is kept as. */
  readonly kept: string

  constructor(jvm: Jvm, name: string) {
    this.jvm = jvm
    this.kept = name
  }

  async call(thread: string, method: string, ...args: JavaArgument[]): Promise<JavaValue> {
    return await this.jvm.call(thread, this.kept, method, args)
  }
}

/** Java threads for calls that may wait: one thread for each call. */
export class JavaThreads {
  readonly #prefix: string
  readonly #idle: string[] = []
  #count = 0

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  /** Calls a method on a thread that has nothing else to do. */
  async call(object: JavaObject, method: string, ...args: JavaArgument[]): Promise<JavaValue> {
    return await this.use((thread) => object.call(thread, method, ...args))
  }

  async use<T>(act: (thread: string) => Promise<T>): Promise<T> {
    const thread = this.#idle.pop() ?? `${this.#prefix}-${++this.#count}`
    try {
      return await act(thread)
    } finally {
      this.#idle.push(thread)
    }
  }
}

/** An RLock. The threads of the JVM share it, as they may share one in a program. */
export class JavaLock extends JavaObject {
  readonly client: Redisson
  /** The members of a joint lock, for what it has no method for; otherwise only the lock itself. */
  parts: readonly JavaLock[] = [this]
  /** How many of them make up the whole. */
  needed = 1
  /** It has the TTL. */
  ttlOf: JavaObject = this
  /** What comes behind the thread in its holders. */
  holderSuffix = ''

  constructor(client: Redisson, name: string) {
    super(client.jvm, name)
    this.client = client
  }

  /** The lock as seen by one thread: one owner. */
  by(thread: string): JavaOwner {
    return new JavaOwner(this, thread)
  }
}

/** One Java thread with one RLock: an owner, in Java's terms. */
export class JavaOwner {
  readonly #lock: JavaLock
  readonly #thread: string

  constructor(lock: JavaLock, thread: string) {
    this.#lock = lock
    this.#thread = thread
  }

  /** How it is spelled in Redis, on each server. */
  async holders(): Promise<string[]> {
    const { jvm, parts } = this.#lock
    const threadId = String(await jvm.send(this.#thread, 'threadId', []))
    return parts.map(({ client, holderSuffix }) => `${client.id}:${threadId}${holderSuffix}`)
  }

  /** Without a lease the watchdog renews it. */
  async lock(leaseMs?: number): Promise<void> {
    await this.call('lock', ...(leaseMs === undefined ? [] : [long(leaseMs), MILLISECONDS]))
  }

  /** Without a wait time it tries once, with the watchdog's lease; -1 as lease is the watchdog's too. */
  async tryLock(waitMs?: number, leaseMs = -1): Promise<boolean> {
    if (waitMs === undefined) return (await this.call('tryLock')) === true
    const taking = this.call('tryLock', long(waitMs), long(leaseMs), MILLISECONDS)
    return (await taking.catch(refusedUnsubscribed)) === true
  }

  async unlock(): Promise<void> {
    await this.call('unlock')
  }

  async forceUnlock(): Promise<boolean> {
    return atLeast(this.#lock.needed, (await this.#askAll('forceUnlock')).map(Number)) === 1
  }

  async isLocked(): Promise<boolean> {
    return atLeast(this.#lock.needed, (await this.#askAll('isLocked')).map(Number)) === 1
  }

  async isHeldByCurrentThread(): Promise<boolean> {
    return atLeast(this.#lock.needed, (await this.#askAll('isHeldByCurrentThread')).map(Number)) === 1
  }

  async remainTimeToLive(): Promise<number> {
    const { parts, needed } = this.#lock
    const replies = await Promise.all(parts.map(({ ttlOf }) => ttlOf.call(this.#thread, 'remainTimeToLive')))
    return atLeast(needed, replies.map(Number))
  }

  /**
   * Takes one from the number at `key` under the lock, until it is 0; resolves to how many it took.
   * @param pauseMs  how long it holds the lock
   * @param restMs   how long it does without, after each
   */
  async sell(key: string, pauseMs: number, restMs: number): Promise<number> {
    const words = [this.#lock.kept, this.#lock.client.kept, key, String(pauseMs), String(restMs)]
    return Number(await this.#lock.jvm.send(this.#thread, 'sell', words))
  }

  /** Any method of the RLock. */
  async call(method: string, ...args: JavaArgument[]): Promise<JavaValue> {
    return await this.#lock.call(this.#thread, method, ...args)
  }

  async #askAll(method: string): Promise<JavaValue[]> {
    const replies: JavaValue[] = []
    for (const part of this.#lock.parts) replies.push(await part.call(this.#thread, method))
    return replies
  }
}

interface PromiseWithResolvers {
  promise: Promise<JavaValue>
  resolve: (value: JavaValue) => void
  reject: (error: Error) => void
}

function withResolvers(): PromiseWithResolvers {
  let resolvers: Omit<PromiseWithResolvers, 'promise'> | undefined
  const promise = new Promise<JavaValue>((resolve, reject) => {
    resolvers = { resolve, reject }
  })
  if (!resolvers) throw new Error('unreachable')
  return { promise, ...resolvers }
}
