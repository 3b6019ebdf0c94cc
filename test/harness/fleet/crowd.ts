/** Ten thousand clients, each with a lock, among a million keys. */

import { spawnChild } from '../../support/processes/child.js'
import type { RedisServer } from '../../support/servers/redis-server.js'

export const CLIENTS = 10_000
const KEYS = 1_000_000
/** Of the other keys: hashes look like locks until they are read. */
const HASHES = 100_000
const PROCESSES = 4
const PIPELINE = 5_000
const JOIN_MS = 120_000
const LEASE_MS = 3_600_000
const PROGRAM = new URL('./crowd-process.js', import.meta.url)

export const clientAt = (number: number): string => `c0ffee00-0000-4000-8000-${String(number).padStart(12, '0')}`
export const holderAt = (number: number): string => `${clientAt(number)}:1`
export const lockAt = (number: number): string => `lock:order:${String(number).padStart(5, '0')}`

type Admin = RedisServer['admin']

/** One for each client. */
export async function plantLocks({ admin }: RedisServer): Promise<void> {
  await inPipelines(admin, CLIENTS, (number, pipeline) => {
    pipeline.hset(lockAt(number), holderAt(number), 1).pexpire(lockAt(number), LEASE_MS)
  })
}

/** So many that there are a million keys. */
export async function plantOtherKeys({ admin }: RedisServer): Promise<void> {
  await admin.call('DEBUG', 'POPULATE', KEYS - HASHES - CLIENTS, 'data')
  await inPipelines(admin, HASHES, (number, pipeline) => {
    const key = `session:${number}`
    pipeline.hset(key, { user: number, name: 'Ada', seen: '2026-11-23', cart: 3 })
    if (number % 2 === 0) pipeline.pexpire(key, LEASE_MS)
  })
}

async function inPipelines(
  admin: Admin,
  count: number,
  add: (number: number, pipeline: ReturnType<Admin['pipeline']>) => void,
): Promise<void> {
  for (let from = 0; from < count; from += PIPELINE) {
    const pipeline = admin.pipeline()
    for (let number = from; number < Math.min(count, from + PIPELINE); number++) add(number, pipeline)
    await pipeline.exec()
  }
}

/** Resolves once all have an inbox. They end with this process. */
export async function startCrowd({ port }: RedisServer): Promise<void> {
  const each = CLIENTS / PROCESSES
  const children = Array.from({ length: PROCESSES }, (_, at) =>
    spawnChild(PROGRAM, [port, at * each, each].map(String)),
  )
  await Promise.all(children.map((child) => child.nextMessage(({ at }) => at === 'ready', JOIN_MS)))
}
