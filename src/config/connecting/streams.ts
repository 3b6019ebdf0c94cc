// Opens and authenticates a connection.
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { withoutSecrets } from '../../util/secrets.js'
import type { Address } from '../address.js'
import type { Deployment } from '../deployment.js'
import type { Credentials } from '../schema.js'
import { serverName } from '../tls.js'

/*
 * A connection before ioredis gets it: opened, authenticated, and asked for its role. Everything ends when the signal
 * of the attempt aborts, which also enforces its time limit.
 *
 * This includes the few bytes of RESP that AUTH and INFO take. ioredis offers no way to use its own: its parser is
 * private, it takes the password before it opens the connection, and a client cannot hand over a connection on which it
 * has already sent commands.
 */

export type Stream = Socket | TLSSocket

/** Longer than any reply to INFO or AUTH: a server that sends more is not Redis. */
const MAX_REPLY_BYTES = 256 * 1024
/** Redis has no password, so any is accepted. ioredis continues in that case as well. */
const NEEDS_NO_PASSWORD = /no password is set|without any password configured/

/** Opens a connection and prepares it; if that fails, closes it. */
export async function openStream<T>(
  address: Address,
  { tls }: Deployment,
  signal: AbortSignal,
  prepare: (stream: Stream) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const { host, port, socket } = address
  const target = socket === undefined ? { host, port } : { path: socket }
  const stream = tls ? connectTls({ ...target, ...serverName(host), ...tls }) : connectTcp(target)
  // ioredis adds its own listener later; until then an error must not end the process.
  stream.on('error', () => {})
  const event = tls ? 'secureConnect' : 'connect'
  try {
    await settled<void>(stream, signal, (resolve) => {
      stream.once(event, resolve)
      return () => stream.off(event, resolve)
    })
    return await prepare(stream)
  } catch (error) {
    stream.destroy()
    throw error
  }
}

/** Authenticates the user of this address, if there is one. @returns the credentials that were used */
export async function authenticate(
  stream: Stream,
  address: Address,
  deployment: Deployment,
  signal: AbortSignal,
): Promise<Credentials> {
  // A resolver that never settles must not keep the connection open.
  const { username, password } = await settled<Credentials>(stream, signal, (resolve, reject) => {
    credentialsOf(address, deployment).then(resolve, reject)
    return () => {}
  })
  if (password === undefined || password === '') return {}
  const command = username ? ['AUTH', username, password] : ['AUTH', password]
  await sendCommand(stream, command, signal).catch((error: Error) => {
    if (!NEEDS_NO_PASSWORD.test(error.message)) throw error
  })
  return { username, password }
}

async function credentialsOf(address: Address, deployment: Deployment): Promise<Credentials> {
  if (address.password !== undefined) return address
  if (!deployment.credentials) return deployment
  const { host, port } = address
  return await deployment.credentials({ host, port })
}

/**
 * Sends one command on a connection that is not in use yet.
 * @returns the text of the reply
 * @throws a `ReplyError` if Redis refuses it: the connection remains usable
 */
export async function sendCommand(stream: Stream, command: readonly string[], signal: AbortSignal): Promise<string> {
  let bytes = Buffer.alloc(0)
  const { kind, text } = await settled<Reply>(stream, signal, (resolve, reject) => {
    const onData = (more: Buffer): void => {
      bytes = Buffer.concat([bytes, more])
      const reply = parseReply(bytes)
      if (reply) resolve(reply)
      else if (bytes.length > MAX_REPLY_BYTES) reject(new Error(`a reply of more than ${MAX_REPLY_BYTES} bytes`))
    }
    stream.on('data', onData)
    // It was paused after the previous command.
    stream.resume()
    const words = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
    stream.write(`*${command.length}\r\n${words.join('')}`)
    return () => {
      stream.off('data', onData)
      stream.pause()
    }
  })
  if (kind === '-') throw replyError(text, command)
  return text
}

/** The error reply; a server that does not know AUTH may repeat the password. */
function replyError(text: string, [name, ...args]: readonly string[]): Error {
  const message = withoutSecrets(text, name === 'AUTH' ? args.at(-1) : undefined)
  return Object.assign(new Error(message), { name: 'ReplyError' })
}

interface Reply {
  readonly kind: string
  readonly text: string
}

/** @returns undefined: the reply is not complete */
function parseReply(bytes: Buffer): Reply | undefined {
  const end = bytes.indexOf('\r\n')
  if (end === -1) return undefined
  const kind = bytes.toString('latin1', 0, 1)
  const line = bytes.toString('utf8', 1, end)
  if (kind !== '$') return { kind, text: line }
  const [from, to] = [end + 2, end + 2 + Number(line)]
  return bytes.length >= to + 2 ? { kind, text: bytes.toString('utf8', from, to) } : undefined
}

/**
 * Settles as `start` says, and rejects when the stream is closed or the signal aborts.
 * @param start  returns a function that cleans up
 */
async function settled<T>(
  stream: Stream,
  signal: AbortSignal,
  start: (resolve: (value: T) => void, reject: (error: Error) => void) => () => void,
): Promise<T> {
  let stop = (): void => {}
  let end = (): void => {}
  try {
    return await new Promise<T>((resolve, reject) => {
      const onClose = (): void => reject(new Error('the connection was closed'))
      const onAbort = (): void => reject(signal.reason)
      stream.on('error', reject).on('close', onClose)
      signal.addEventListener('abort', onAbort)
      end = () => {
        stream.off('error', reject).off('close', onClose)
        signal.removeEventListener('abort', onAbort)
      }
      stop = start(resolve, reject)
      if (signal.aborted) onAbort()
      else if (stream.destroyed) onClose()
    })
  } finally {
    end()
    stop()
  }
}
