// The addresses from which a lock is renewed, by MONITOR: `--trace`.
import { DeploymentUnderTest } from '../../doctor/target.js'
import { durationOf } from '../../util/duration-text.js'
import { within } from '../../util/timeout.js'
import { EXIT, Failure } from '../exit-codes.js'
import { say } from '../stderr.js'
import type { FleetOptions } from './options.js'

/** How long Redis may take to begin, ms. */
const START_MS = 5_000
/** The longest line that is read, as Redis writes it. */
const MAX_LINE = 1_000_000

/**
 * Finds out from which addresses holders of a lock are renewed, by the MONITOR of the server that has it.
 * @returns by holder, those that were seen in time
 * @throws {Failure} Redis refuses MONITOR, or the connection is lost
 */
export async function traceHolders(
  { target, subject, traceMs }: Pick<FleetOptions, 'target' | 'subject' | 'traceMs'>,
  holders: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  await using deployment = await DeploymentUnderTest.open(target, '')
  const { redis, address } = deployment.ownerOf(subject)
  say(
    `MONITOR shows this program all commands of ${address}, for ${durationOf(traceMs)} or until each holder was seen, and ` +
      'slows a busy Redis meanwhile. It looks only for the renewals of this lock',
  )
  const reader = new RenewalReader(subject, holders, redis.options.db ?? 0)
  // Only the socket of this connection is needed: ioredis puts what it cannot parse into its errors.
  const connection = redis.duplicate({ lazyConnect: true, retryStrategy: () => null })
  connection.on('error', () => {})
  try {
    await connection.connect()
    await reader.run(connection.stream, traceMs)
  } finally {
    connection.disconnect()
  }
  return reader.addresses
}

/** The sender of a command. */
interface Caller {
  readonly address: string
  /** The wanted holders that the command names. */
  readonly holders: readonly string[]
}

type Socket = Pick<NodeJS.ReadWriteStream, 'on' | 'removeAllListeners' | 'write'>

/**
 * Reads the output of MONITOR: a line for each command, and after that of a script one for each command in it. It drops
 * everything else at once.
 */
export class RenewalReader {
  /** By holder. */
  readonly addresses = new Map<string, string>()
  readonly #lock: string
  readonly #holders: ReadonlyMap<string, string>
  readonly #database: number
  #rest = ''
  /** The sender of the last command, if that names the lock and holders. */
  #caller: Caller | undefined
  #onReply: (refusal?: string) => void = () => {}
  #onAll: () => void = () => {}

  constructor(lock: string, holders: readonly string[], database: number) {
    this.#lock = quoted(lock)
    this.#holders = new Map(holders.map((holder) => [holder, quoted(holder)]))
    this.#database = database
  }

  /** Resolves when all holders have been seen, or the time is over. @throws {Failure} */
  async run(socket: Socket, forMs: number): Promise<void> {
    const lost = new Promise<never>((_, reject) => {
      socket.on('close', () => reject(new Failure(EXIT.unavailable, 'Redis closed the connection of MONITOR')))
    })
    lost.catch(() => {})
    const reply = new Promise<string | undefined>((resolve) => (this.#onReply = resolve))
    const all = new Promise<void>((resolve) => (this.#onAll = resolve))
    socket.removeAllListeners('data')
    socket.on('data', (chunk: Buffer) => this.read(chunk.toString('latin1')))
    socket.write('MONITOR\r\n')
    const refusal = await within(START_MS, Promise.race([reply, lost]))
    if (refusal !== undefined) {
      throw new Failure(EXIT.refused, `Redis refuses MONITOR: ${refusal}. --trace needs a user with +monitor`)
    }
    await within(forMs, Promise.race([all, lost])).catch((error: unknown) => {
      if (error instanceof Failure) throw error
    })
  }

  read(text: string): void {
    const lines = (this.#rest + text).split('\r\n')
    this.#rest = lines.pop() ?? ''
    // The rest of a line that is too long is added to something that is no line.
    if (this.#rest.length > MAX_LINE) this.#rest = '…'
    for (const line of lines) this.#readLine(line)
  }

  #readLine(line: string): void {
    if (line.startsWith('-')) this.#onReply(line.slice(1))
    if (line === '+OK') this.#onReply()
    const [start, database, source = ''] = /^\+[\d.]+ \[(\d+) (\S+)\] (?=")/.exec(line) ?? []
    if (start === undefined || Number(database) !== this.#database) return
    const words = line.slice(start.length)
    if (source !== 'lua') this.#caller = this.#callerOf(source, words)
    else if (this.#caller && this.#isRenewal(words)) this.#found(this.#caller)
  }

  #callerOf(address: string, words: string): Caller | undefined {
    if (!words.includes(this.#lock)) return undefined
    const holders = [...this.#holders].filter(([, text]) => words.includes(text)).map(([holder]) => holder)
    return holders.length > 0 ? { address, holders } : undefined
  }

  #isRenewal(words: string): boolean {
    const command = '"pexpire" '
    return words.slice(0, command.length).toLowerCase() === command && words.startsWith(this.#lock, command.length)
  }

  #found({ address, holders }: Caller): void {
    for (const holder of holders) this.addresses.set(holder, address)
    if (this.addresses.size === this.#holders.size) this.#onAll()
  }
}

/** A word as MONITOR shows it. */
function quoted(text: string): string {
  const escapes: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\x07': '\\a', '\b': '\\b' }
  const escaped = (byte: string): string =>
    escapes[byte] ?? (/["\\]/.test(byte) ? `\\${byte}` : `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)
  return `"${Buffer.from(text)
    .toString('latin1')
    .replace(/["\\]|[^ -~]/g, escaped)}"`
}
