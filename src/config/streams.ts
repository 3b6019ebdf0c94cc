import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { withoutSecrets } from '../util/secrets.js'
import type { Address } from './address.js'
import type { Deployment } from './deployment.js'
import type { Credentials } from './schema.js'
import { serverName } from './tls.js'

/*
 * A connection before ioredis gets it: opened, signed in, and asked a question or two. Everything ends with the signal of
 * the attempt, which also carries its time limit.
 */

export type Stream = Socket | TLSSocket

/** Longer than any reply to INFO or AUTH: a server that sends this much is not Redis. */
const LONGEST_REPLY = 256 * 1024
/** Redis has no password, so any will do. ioredis continues in that case as well. */
const NEEDS_NO_PASSWORD = /no password is set|without any password configured/

/** Opens a connection and prepares it; one that cannot be prepared is closed. */
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

/** Signs in the user of this address, if there is one. @returns the credentials it used */
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
  await ask(stream, command, signal).catch((error: Error) => {
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
 * Sends one command on a connection that nobody else uses yet.
 * @returns the line or the text of the reply
 * @throws a `ReplyError` if Redis refuses it: the connection can still be used
 */
export async function ask(stream: Stream, command: readonly string[], signal: AbortSignal): Promise<string> {
  let bytes = Buffer.alloc(0)
  const { kind, text } = await settled<Reply>(stream, signal, (resolve, reject) => {
    const onData = (more: Buffer): void => {
      bytes = Buffer.concat([bytes, more])
      const reply = replyIn(bytes)
      if (reply) resolve(reply)
      else if (bytes.length > LONGEST_REPLY) reject(new Error(`a reply of more than ${LONGEST_REPLY} bytes`))
    }
    stream.on('data', onData)
    // The previous command has paused it.
    stream.resume()
    const words = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
    stream.write(`*${command.length}\r\n${words.join('')}`)
    return () => {
      stream.off('data', onData)
      stream.pause()
    }
  })
  if (kind === '-') throw refusal(text, command)
  return text
}

/** What Redis replied; a server that does not know AUTH may repeat the password. */
function refusal(text: string, [name, ...args]: readonly string[]): Error {
  const message = withoutSecrets(text, name === 'AUTH' ? args.at(-1) : undefined)
  return Object.assign(new Error(message), { name: 'ReplyError' })
}

interface Reply {
  readonly kind: string
  readonly text: string
}

/** @returns undefined: it is not complete */
function replyIn(bytes: Buffer): Reply | undefined {
  const end = bytes.indexOf('\r\n')
  if (end === -1) return undefined
  const kind = bytes.toString('latin1', 0, 1)
  const line = bytes.toString('utf8', 1, end)
  if (kind !== '$') return { kind, text: line }
  const [from, to] = [end + 2, end + 2 + Number(line)]
  return bytes.length >= to + 2 ? { kind, text: bytes.toString('utf8', from, to) } : undefined
}

/** Ends with the stream or the signal. */
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
