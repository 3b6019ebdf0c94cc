import type { Address } from './address.js'
import type { Deployment } from './deployment.js'
import { ask, authenticate, openStream, type Stream } from './streams.js'

/** How long to wait for the other servers once one says that it is the master, ms. */
const OTHERS_MS = 500
/** If the search took longer than this, it is repeated, ms. */
const FRESH_MS = 2 * OTHERS_MS

interface Master {
  readonly stream: Stream
  /** Ids of its own history of writes, and of the one it continues: that of the master it took over from. */
  readonly history: string | undefined
  readonly earlierHistory: string | undefined
  readonly replicas: number
}

/** Asks all addresses at once. @returns a connection to the master, with the user signed in */
export async function findMaster(deployment: Deployment, signal: AbortSignal): Promise<Stream> {
  const startedAt = performance.now()
  const master = await survey(deployment, signal)
  if (performance.now() - startedAt < FRESH_MS) return master
  // The master may have been frozen, and a server that was a replica when it replied may have taken its place.
  master.destroy()
  return await survey(deployment, signal)
}

async function survey(deployment: Deployment, signal: AbortSignal): Promise<Stream> {
  const asked = deployment.addresses.map((address) => openMaster(address, deployment, signal))
  const heard = await heardOf(asked, OTHERS_MS)
  const best = bestOf(heard.flatMap((one) => (one?.status === 'fulfilled' ? [one.value] : [])))
  for (const one of asked) {
    const destroy = (master: Master): void => void (master === best || master.stream.destroy())
    one.then(destroy, () => {})
  }
  if (best) return best.stream
  const errors = heard.flatMap((one) => (one?.status === 'rejected' ? [one.reason as Error] : []))
  throw mostTelling(errors)
}

/** A refused password explains more than a server that is down. */
export function mostTelling(errors: readonly Error[]): Error {
  return (errors.find(({ name }) => name === 'ReplyError') ??
    errors.find((error) => !(error instanceof NotMasterError)) ??
    errors[0]) as Error
}

/**
 * Chooses between servers that all claim to be the master. One whose history another continues was replaced while it was
 * frozen or cut off. Of the rest, the one with the most replicas counts, then the first in the list.
 */
function bestOf(masters: readonly Master[]): Master | undefined {
  const current = masters.filter(({ history }) => !masters.some(({ earlierHistory }) => earlierHistory === history))
  return [...(current.length > 0 ? current : masters)].sort((one, other) => other.replicas - one.replicas)[0]
}

export class NotMasterError extends Error {}

/** @throws {NotMasterError} the server is a replica */
async function openMaster(address: Address, deployment: Deployment, signal: AbortSignal): Promise<Master> {
  return await openStream(address, deployment, signal, async (stream) => {
    await authenticate(stream, address, deployment, signal)
    const field = await replicationOf(stream, signal)
    if (field('role') !== 'master') throw new NotMasterError(`${address.host}:${address.port} is no master`)
    return {
      stream,
      history: field('master_replid'),
      earlierHistory: field('master_replid2'),
      replicas: Number(field('connected_slaves') ?? 0),
    }
  })
}

/** @returns the fields of INFO replication */
export async function replicationOf(
  stream: Stream,
  signal: AbortSignal,
): Promise<(name: string) => string | undefined> {
  const info = await ask(stream, ['INFO', 'replication'], signal)
  return (name) => new RegExp(`^${name}:(\\w+)`, 'm').exec(info)?.[1]
}

/**
 * How each promise settled; undefined: it has not. Waits for all of them, but no longer than `graceMs` after the first that
 * was fulfilled.
 */
export async function heardOf<T>(
  asked: readonly Promise<T>[],
  graceMs: number,
): Promise<(PromiseSettledResult<T> | undefined)[]> {
  const heard: (PromiseSettledResult<T> | undefined)[] = asked.map(() => undefined)
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>((resolve) => {
    const all = asked.map(async (one, index) => {
      const [result] = await Promise.allSettled([one])
      heard[index] = result
      if (result.status === 'fulfilled') timer ??= setTimeout(resolve, graceMs)
    })
    void Promise.all(all).then(() => resolve())
  })
  clearTimeout(timer)
  return heard
}
