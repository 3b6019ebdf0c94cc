/**
 * A transaction inside a lock: the lock is released only after the commit, and the row rejects a holder that was paused past
 * its lease by its fencing token.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { PGlite, type Transaction } from '@electric-sql/pglite'
import { connect, type FencedHold, fencedUpdate } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const db = await PGlite.create() // a Postgres inside this process, for the example
await db.exec(`
  CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL, fencing_token bigint);
  INSERT INTO accounts VALUES ('alice', 100)
`)

// In production these are two processes that share Redis and the database.
const workerA = await connect(REDIS_URL)
const workerB = await connect(REDIS_URL)
const lockOfA = workerA.getFencedLock('lock:example:alice')
const lockOfB = workerB.getFencedLock('lock:example:alice')

// Everything goes well: lock, begin, write, commit, unlock.
await lockOfA.withLock(async (hold) => {
  await db.transaction(async (transaction) => await withdraw(transaction, hold, 10))
  console.log(`A: committed, and the lock is still held: ${await lockOfA.isLocked()}`)
})

// A is paused past its lease before it writes. Meanwhile B takes the lock and commits.
const holdOfA = await lockOfA.lock({ leaseTimeMs: 500 })
const pauseOfA = sleep(1_500)
await lockOfB.withLock(async (hold) => {
  await db.transaction(async (transaction) => await withdraw(transaction, hold, 20))
  console.log('B: committed')
})
await pauseOfA
try {
  // A checks nothing and continues. The row has B's token, so the transaction of A is rolled back.
  await db.transaction(async (transaction) => await withdraw(transaction, holdOfA, 50))
} catch (error) {
  console.log(`A: rolled back: ${(error as Error).message}`)
}

const { rows } = await db.query<{ balance: number }>('SELECT balance FROM accounts')
console.log(`balance: ${rows[0]?.balance}`)

await workerA.close()
await workerB.close()
await db.close()

async function withdraw(transaction: Transaction, hold: FencedHold, amount: number): Promise<void> {
  const { set, where, token } = fencedUpdate(hold.fencingToken, { placeholder: '$1' })
  // The token first: from here on an earlier holder is rejected, and this row is locked until the commit.
  const { rows } = await transaction.query<{ balance: number }>(
    `UPDATE accounts SET ${set} WHERE id = 'alice' AND ${where} RETURNING balance`,
    [token],
  )
  const [account] = rows
  if (!account) throw new Error('stale: another holder has written since')
  await transaction.query(`UPDATE accounts SET balance = $1 WHERE id = 'alice'`, [account.balance - amount])
}

// Output:
// A: committed, and the lock is still held: true
// B: committed
// A: rolled back: stale: another holder has written since
// balance: 70
