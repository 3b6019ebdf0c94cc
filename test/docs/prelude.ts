/**
 * What a code block of the pages may borrow without showing where it comes from: the names in the comment
 * `<!-- example: client, lock -->` on the line before the block. Copied next to the blocks and compiled with them.
 */
import { PGlite } from '@electric-sql/pglite'
import { connect } from 'holdfast'
import { Redis } from 'ioredis'
import { createClient } from 'redis'

const { REDIS_URL: url = '' } = process.env

/** Ready before the first block runs: to open it blocks the event loop for seconds on a busy machine. */
export const stock = openStock()

/** The environment of one block, created for each. */
export async function prelude() {
  const database = await stock
  const client = await connect(url)
  const lockName = 'lock:order:1001'
  const pause = (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, ms)
      signal?.addEventListener('abort', () => {
        clearTimeout(timer)
        reject(signal.reason)
      })
    })
  return {
    client,
    lock: client.getLock(lockName),
    /** Another client, as in another process. */
    otherClient: await connect(url),
    redis: new Redis(url),
    nodeRedis: await createClient({ url }).connect(),
    /** Like the pool of the package `pg`; the Postgres runs in this process. */
    postgres: {
      query: async (sql: string, values: unknown[]) => {
        const { rows, affectedRows } = await database.query(sql, values)
        return { rows, rowCount: affectedRows ?? 0 }
      },
    },
    /** Like the URLs of three independent servers. */
    servers: [1, 2, 3].map((database) => `${url}/${database}`),
    pause,
    orderId: '1001',
    /** Substitutes for the code of a user's program. */
    charge: async (_order: string, options?: { signal?: AbortSignal }) => await pause(5, options?.signal),
    rebuildIndex: async (_options?: { signal?: AbortSignal }) => await pause(5),
    sendReceipt: async (_order: string) => await pause(5),
    crunch: () => {},
    server: { close: async () => {} },
    log: (..._words: unknown[]) => {},
  }
}

async function openStock(): Promise<PGlite> {
  const database = await PGlite.create()
  await database.exec(`
    CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL, fencing_token bigint);
    INSERT INTO stock VALUES ('book', 10)
  `)
  return database
}
