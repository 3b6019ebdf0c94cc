// Finds the master among servers.
import { clearTimeout, monotonicNow, setTimeout } from '../../util/real-time.js'
import type { Address } from '../address.js'
import type { Deployment } from '../deployment.js'
import { authenticate, openStream, type Stream, sendCommand } from './streams.js'

/** How long to wait for the other servers once one has replied that it is the master, ms. */
const OTHERS_MS = 500
/** If the search took longer than this, it is repeated, ms. */
const FRESH_MS = 2 * OTHERS_MS

interface Master {
  readonly stream: Stream
  /** Replication ids: of its own writes, and of the master that it took over from. */
  readonly replicationId: string | undefined
  readonly previousReplicationId: string | undefined
  readonly replicas: number
}

/** Asks all servers at once. @returns an authenticated connection to the master */
export async function findMaster(deployment: Deployment, signal: AbortSignal): Promise<Stream> {
  const startedAt = monotonicNow()
  const master = await findOnce(deployment, signal)
  if (monotonicNow() - startedAt < FRESH_MS) return master
  // The master may have been frozen, and a server that was a replica when it replied may have replaced it.
  master.destroy()
  return await findOnce(deployment, signal)
}

async function findOnce(deployment: Deployment, signal: AbortSignal): Promise<Stream> {
  const opening = deployment.addresses.map((address) => openMaster(address, deployment, signal))
  const outcomes = await settledSoon(opening, OTHERS_MS)
  const best = bestOf(outcomes.flatMap((one) => (one?.status === 'fulfilled' ? [one.value] : [])))
  for (const one of opening) {
    const destroy = (master: Master): void => void (master === best || master.stream.destroy())
    one.then(destroy, () => {})
  }
  if (best) return best.stream
  const errors = outcomes.flatMap((one) => (one?.status === 'rejected' ? [one.reason as Error] : []))
  throw mostInformative(errors)
}

/** A rejected password explains more than a server that is down. */
export function mostInformative(errors: readonly Error[]): Error {
  return (errors.find(({ name }) => name === 'ReplyError') ??
    errors.find((error) => !(error instanceof NotMasterError)) ??
    errors[0]) as Error
}

/**
 * Chooses between servers that all claim to be the master. If another server continues the replication id of one, that
 * one was replaced while it was frozen or cut off. Of the rest, the server with the most replicas wins, then the first
 * in the list.
 */
function bestOf(masters: readonly Master[]): Master | undefined {
  const current = masters.filter(
    ({ replicationId }) => !masters.some(({ previousReplicationId }) => previousReplicationId === replicationId),
  )
  return [...(current.length > 0 ? current : masters)].sort((one, other) => other.replicas - one.replicas)[0]
}

export class NotMasterError extends Error {}

/** @throws {NotMasterError} the server is a replica */
async function openMaster(address: Address, deployment: Deployment, signal: AbortSignal): Promise<Master> {
  return await openStream(address, deployment, signal, async (stream) => {
    await authenticate(stream, address, deployment, signal)
    const field = await replicationOf(stream, signal).catch((error: Error) => {
      throw explained(error)
    })
    if (field('role') !== 'master') throw new NotMasterError(`${address.host}:${address.port} is not a master`)
    return {
      stream,
      replicationId: field('master_replid'),
      previousReplicationId: field('master_replid2'),
      replicas: Number(field('connected_slaves') ?? 0),
    }
  })
}

/** @returns the error with what to do, if this user may not call INFO, or the server does not have it */
function explained(error: Error): Error {
  if (!isInfoRefusal(error)) return error
  const advice =
    'INFO tells which server of a list is the master: allow it (+info), or use singleServerConfig if one address always leads to it'
  return Object.assign(new Error(`${error.message}. ${advice}`, { cause: error }), { name: error.name })
}

export function isInfoRefusal({ message }: Error): boolean {
  return /^(NOPERM|ERR unknown command)/.test(message)
}

/** @returns a function that reads the fields of INFO replication */
export async function replicationOf(
  stream: Stream,
  signal: AbortSignal,
): Promise<(name: string) => string | undefined> {
  const info = await sendCommand(stream, ['INFO', 'replication'], signal)
  return (name) => new RegExp(`^${name}:(\\w+)`, 'm').exec(info)?.[1]
}

/**
 * Waits for all promises, but no longer than `graceMs` after the first was fulfilled.
 * @returns how each promise settled; undefined: it has not
 */
export async function settledSoon<T>(
  promises: readonly Promise<T>[],
  graceMs: number,
): Promise<(PromiseSettledResult<T> | undefined)[]> {
  const outcomes: (PromiseSettledResult<T> | undefined)[] = promises.map(() => undefined)
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>((resolve) => {
    const all = promises.map(async (one, index) => {
      const [result] = await Promise.allSettled([one])
      outcomes[index] = result
      if (result.status === 'fulfilled') timer ??= setTimeout(resolve, graceMs)
    })
    void Promise.all(all).then(() => resolve())
  })
  clearTimeout(timer)
  return outcomes
}
