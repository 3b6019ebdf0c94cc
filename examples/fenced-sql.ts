/**
 * A worker is paused past its lease, wakes up and writes its result, although another worker has written since.
 * No lock can stop that write. The database rejects it, because the row has a higher fencing token.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { PGlite } from '@electric-sql/pglite'
import { connect, fencedUpdate } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const db = await PGlite.create() // a Postgres inside this process, for the example
await db.exec(`
  CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL, fencing_token bigint);
  INSERT INTO stock VALUES ('book', 10)
`)

// In production these are two processes that share Redis and the database.
const workerA = await connect(REDIS_URL)
const workerB = await connect(REDIS_URL)

// A acquires the lock and reads. Then it is paused: a long garbage collection, a suspended machine.
const holdOfA = await workerA.getFencedLock('lock:example:book').lock({ leaseTimeMs: 500 })
const seenByA = await read(holdOfA.fencingToken)
console.log(`A: sees ${seenByA} pieces, and is paused`)
const pauseOfA = sleep(1_500)

// Its lease ends, and B acquires the lock.
await workerB.getFencedLock('lock:example:book').withLock(async (hold) => {
  const seenByB = await read(hold.fencingToken)
  console.log(`B: sees ${seenByB} pieces, sells 3: ${await write(seenByB - 3, hold.fencingToken)}`)
})

// A wakes up, checks nothing, and continues. Without the token, the 3 pieces that B sold would be back in stock.
await pauseOfA
console.log(`A: sells 1: ${await write(seenByA - 1, holdOfA.fencingToken)}`)
const { rows } = await db.query<Stock>('SELECT pieces FROM stock')
console.log(`in stock: ${rows[0]?.pieces}`)

await workerA.close()
await workerB.close()
await db.close()

interface Stock {
  pieces: number
}

/** Stores the token while reading, so that stale holders are rejected from here on, not only after the write. */
async function read(fencingToken: bigint): Promise<number> {
  const { set, where, token } = fencedUpdate(fencingToken, { placeholder: '$1' })
  const update = `UPDATE stock SET ${set} WHERE item = 'book' AND ${where} RETURNING pieces`
  const { rows } = await db.query<Stock>(update, [token])
  if (rows[0] === undefined) throw new Error('rejected: stale token')
  return rows[0].pieces
}

async function write(pieces: number, fencingToken: bigint): Promise<string> {
  const { set, where, token } = fencedUpdate(fencingToken, { placeholder: '$2' })
  const update = `UPDATE stock SET pieces = $1, ${set} WHERE item = 'book' AND ${where}`
  const { affectedRows } = await db.query(update, [pieces, token])
  return affectedRows === 0 ? 'rejected: stale token' : 'written'
}

// Output:
// A: sees 10 pieces, and is paused
// B: sees 10 pieces, sells 3: written
// A: sells 1: rejected: stale token
// in stock: 7
