/** `client.locks` is a `LockManager` of the platform, as TypeScript describes it. Compiled, and never run. */
import type { Client, WebLock, WebLockInfo, WebLockMode } from '../../../src/index.js'

declare const client: Client

/** Code that was written for `navigator.locks`. */
async function ofThePlatform(locks: LockManager): Promise<number> {
  await locks.query()
  const options: LockOptions = { mode: 'shared', signal: new AbortController().signal }
  await locks.request('a', options, (lock: Lock | null) => lock?.name)
  return await locks.request('a', async () => 1)
}

export async function manager(): Promise<void> {
  const locks: LockManager = client.locks
  await ofThePlatform(locks)
  await ofThePlatform(client.locks)
  const options: LockOptions = { ifAvailable: true }
  await client.locks.request('a', options, (lock: Lock | null) => lock?.mode)
  const snapshot: LockManagerSnapshot = await client.locks.query()
  void snapshot
}

export async function results(): Promise<void> {
  const text: string = await client.locks.request('a', async (lock) => lock.name)
  const mode: WebLockMode = await client.locks.request('a', { priority: 1, maxWaiters: 2 }, ({ mode }) => mode)
  const { held, pending } = await client.locks.query()
  const first: WebLockInfo | undefined = [...held, ...pending][0]
  await client.locks.request('a', { ifAvailable: true }, (lock: WebLock | null) => lock?.signal)
  // @ts-expect-error null if it is not available
  await client.locks.request('a', { ifAvailable: true }, (lock: WebLock) => lock.signal)
  // @ts-expect-error no such mode
  await client.locks.request('a', { mode: 'read' }, () => {})
  void [text, mode, first]
}
