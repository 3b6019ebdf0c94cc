/**
 * A BullMQ worker with room for ten jobs. Jobs of one account read its balance, work for a while and write it back, so they
 * must not overlap: each takes the account's lock. Jobs of other accounts run beside them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, Queue, QueueEvents, Worker } from 'bullmq'
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env
const connection = { url: REDIS_URL }

interface Booking {
  account: string
  amount: number
}

const balances = new Map<string, number>() // in production, rows of a database
const client = await connect(REDIS_URL)

await run('without the lock', async (job) => await book(job))
await run('with the lock', async (job) => {
  await client.withLock(`lock:account:${job.data.account}`, async (hold) => await book(job, hold.signal))
})
await client.close()

async function book({ data: { account, amount } }: Job<Booking>, signal?: AbortSignal): Promise<void> {
  const balance = balances.get(account) ?? 0
  await sleep(500, undefined, { signal }) // asks the bank
  balances.set(account, balance + amount)
}

/** Books 10 three times on one account and once on another, and prints both balances. */
async function run(title: string, processor: (job: Job<Booking>) => Promise<void>): Promise<void> {
  balances.clear()
  const name = `bookings ${title}`
  const queue = new Queue<Booking>(name, { connection })
  const events = new QueueEvents(name, { connection })
  await events.waitUntilReady()
  const worker = new Worker<Booking>(name, processor, { connection, concurrency: 10 })
  const jobs = await queue.addBulk(
    ['savings', 'savings', 'savings', 'current'].map((account) => ({ name: 'book', data: { account, amount: 10 } })),
  )
  await Promise.all(jobs.map((job) => job.waitUntilFinished(events)))
  console.log(`${title}: savings ${balances.get('savings')}, current ${balances.get('current')}`)
  await worker.close() // waits for jobs that are being processed
  await events.close()
  await queue.obliterate()
  await queue.close()
}

// Output:
// without the lock: savings 10, current 10
// with the lock: savings 30, current 10
