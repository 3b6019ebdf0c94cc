/** The programs of docs/recipes as printed, each in a process of its own, with what it needs. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Queue } from 'bullmq'
import { transform } from 'esbuild'
import { parse } from 'yaml'
import { type Client, connect } from '../../src/index.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { type PostgresServer, startPostgres } from '../support/servers/postgres-server.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'
import { codeBlocksOf, ROOT } from './code-blocks.js'

/** One for each version of Node, which may run this at the same time. */
const OUT = fileURLToPath(new URL(`build/recipes-${process.version}/`, ROOT))

let redis: RedisServer

before(async () => {
  redis = await startRedis()
  rmSync(OUT, { recursive: true, force: true })
  mkdirSync(OUT, { recursive: true })
})
beforeEach(() => redis.admin.flushall())
after(() => redis.stop())

/** Writes a `ts` block of a page as a program. @param change  what is done to it before. @returns its path */
async function program(page: string, index: number, change = (source: string) => source): Promise<string> {
  const block = codeBlocksOf(`docs/recipes/${page}.md`).filter(({ language }) => language === 'ts')[index]
  assert(block, `${page} has a block ${index}`)
  const source = change(block.lines.join('\n').replace('redis://127.0.0.1:6379', redis.url))
  const path = join(OUT, `${page}-${block.line}.mjs`)
  writeFileSync(path, (await transform(source, { loader: 'ts', format: 'esm' })).code)
  return path
}

/** @throws {AssertionError} there is nothing to replace */
function replaced(source: string, old: string, by: string): string {
  assert(source.includes(old), `the block has ${old}`)
  return source.replace(old, by)
}

describe('docs/recipes/leader-election.md', () => {
  it('one of three replicas leads, and a rolling update hands over without waiting for the lease', async () => {
    const path = await program('leader-election', 0)
    await using replicas = new Replicas(path, 3)
    for (let token = 1; token <= 3; token++) {
      const leader = await replicas.leader(token)
      assert.equal(replicas.said(/leading/).length, token)
      // The deployment starts a new one before it ends an old one.
      replicas.start()
      await waitUntil(() => replicas.said(/^running$/m).length === 3 + token, { timeoutMs: 30_000 })
      const at = performance.now()
      process.kill(leader.pid as number, 'SIGTERM')
      await replicas.leader(token + 1)
      // Two thirds of the lease, 10 s, are always left.
      assert(performance.now() - at < 6_000)
      assert.deepEqual(await leader.exit, { code: null, signal: 'SIGTERM' })
    }
    assert.equal(replicas.stderr, '')
  })

  it('the manifest has three replicas, and more time to shut down than closeOnSignals takes', () => {
    const manifests = codeBlocksOf('docs/recipes/kubernetes.md').filter(({ language }) => language === 'yaml')
    const { spec } = manifests.map(({ lines }) => parse(lines.join('\n'))).find(({ kind }) => kind === 'Deployment')
    assert.equal(spec.replicas, 3)
    assert.deepEqual(spec.selector.matchLabels, spec.template.metadata.labels)
    const [{ command, lifecycle }] = spec.template.spec.containers
    assert(spec.template.spec.terminationGracePeriodSeconds > lifecycle.preStop.sleep.seconds + 10)
    assert.equal(command[0], 'node')
  })
})

class Replicas implements AsyncDisposable {
  readonly #path: string
  readonly #children: Child[] = []

  constructor(path: string, count: number) {
    this.#path = path
    for (let index = 0; index < count; index++) this.start()
  }

  get stderr(): string {
    return this.#children.map(({ stderr }) => stderr).join('')
  }

  start(): void {
    this.#children.push(spawnChild(this.#path, [], { env: { REDIS_URL: redis.url } }))
  }

  said(pattern: RegExp): Child[] {
    return this.#children.filter(({ stdout }) => pattern.test(stdout))
  }

  async leader(token: number): Promise<Child> {
    const found = () => this.said(new RegExp(`^leading, token ${token}$`, 'm'))[0]
    return await waitUntil(found, { timeoutMs: 30_000, message: () => `token ${token}\n${this.stderr}` })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.stop()))
  }
}

describe('docs/recipes/bullmq.md', () => {
  const ACCOUNTS = ['savings', 'current', 'savings', 'current', 'savings']
  const WORK = `
    console.log(JSON.stringify({ at: 'begins', account }))
    await new Promise((resolve) => setTimeout(resolve, 200))
    console.log(JSON.stringify({ at: 'ends', account }))`
  const BLOCKS: [title: string, index: number, old: string, by: string][] = [
    ['waits for the lock', 0, '// Your work.', `const { account } = booking\n${WORK} //`],
    ['puts the job back', 1, "return 'booked'", `${WORK}\nreturn 'booked'`],
  ]

  for (const [title, index, old, by] of BLOCKS) {
    it(`a worker that ${title} processes jobs of one account one at a time, and of two accounts side by side`, async () => {
      const path = await program('bullmq', index, (source) => replaced(source, old, by))
      const queue = new Queue('bookings', { connection: { url: redis.url } })
      try {
        await queue.addBulk(ACCOUNTS.map((account) => ({ name: 'book', data: { account } })))
        await using worker = spawnChild(path)
        const inside = new Map<string, number>()
        let [done, most] = [0, 0]
        while (done < ACCOUNTS.length) {
          const { at, account } = await worker.nextMessage<{ at: string; account: string }>()
          inside.set(account, (inside.get(account) ?? 0) + (at === 'begins' ? 1 : -1))
          assert([0, 1].includes(inside.get(account) ?? 0), `${inside.get(account)} jobs of ${account}`)
          most = Math.max(
            most,
            [...inside.values()].reduce((sum, count) => sum + count),
          )
          if (at === 'ends') done++
        }
        assert.equal(most, 2)
        process.kill(worker.pid as number, 'SIGTERM')
        assert.deepEqual(await worker.exit, { code: null, signal: 'SIGTERM' })
        assert.equal(worker.stderr, '')
      } finally {
        await queue.close()
      }
    })
  }
})

describe('docs/recipes/nextjs.md', () => {
  const { REDIS_URL, PAYMENTS_URL } = process.env
  after(() => {
    for (const [name, value] of Object.entries({ REDIS_URL, PAYMENTS_URL })) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })

  it('a route loads without a Redis, keeps its client when it is loaded again, and pays an order once at a time', async () => {
    await using payments = await startPayments()
    await using server = await startRedis()
    Object.assign(process.env, { REDIS_URL: server.url, PAYMENTS_URL: payments.url })
    const { href } = pathToFileURL(await program('nextjs', 0))
    await server.kill()
    const { POST } = await import(href)
    const { holdfast } = globalThis as { holdfast?: Promise<Client> }
    assert(holdfast)
    try {
      await server.restart()
      await import(`${href}?edited`)
      assert.equal((globalThis as { holdfast?: Promise<Client> }).holdfast, holdfast)

      const pay = (): Promise<Response> => POST(new Request('http://shop'), { params: Promise.resolve({ id: '1' }) })
      const first = pay()
      const answer = await payments.next()
      assert.equal((await pay()).status, 409)
      answer()
      assert.deepEqual(await (await first).json(), { paid: true })
    } finally {
      await (await holdfast).close()
    }
  })
})

/** A payment service that answers a request when it is told to. */
async function startPayments() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** @returns how to answer the next request */
    async next(): Promise<() => void> {
      const [, reply] = (await once(server, 'request')) as [unknown, ServerResponse]
      return () => reply.end()
    },
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

describe('docs/recipes/database-transaction.md', () => {
  const ACCOUNTS = `
    DROP TABLE IF EXISTS accounts;
    CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL, fencing_token bigint);
    INSERT INTO accounts VALUES ('alice', 100)`
  const WITHDRAW = `
    const outcomes = await Promise.allSettled(Array.from({ length: Number(process.env.WITHDRAWALS) }, () => withdraw('alice', 1)))
    for (const { reason } of outcomes) if (reason) console.log(reason.message)
    await client.close()
    await pool.end()`
  /** The order that the page warns of. */
  const INSIDE_OUT = `
    await database.query('BEGIN')
    const hold = await client.getFencedLock(\`lock:account:\${id}\`).lock()
    await database.query('UPDATE accounts SET balance = balance - $2, fencing_token = $3 WHERE id = $1', [id, amount, hold.fencingToken])
    await hold.unlock()
    await database.query('COMMIT')
    return`

  let client: Client
  let postgres: PostgresServer

  before(async () => {
    client = await connect(redis.url)
    postgres = await startPostgres()
  })
  after(async () => {
    await client.close()
    await postgres[Symbol.asyncDispose]()
  })

  /** Runs withdrawals by the printed function. @returns whether the lock was held at each commit, and the outcome */
  async function run(withdrawals: number, change = (source: string) => source, onBegin: () => unknown = () => {}) {
    await postgres.db.exec(ACCOUNTS)
    const commits: boolean[] = []
    postgres.onCommand = async (sql) => {
      if (sql === 'COMMIT') commits.push((await redis.admin.exists('lock:account:alice')) === 1)
      if (sql === 'BEGIN') await onBegin()
    }
    const path = await program('database-transaction', 0, (source) => change(`${source}\n${WITHDRAW}`))
    const env = { DATABASE_URL: postgres.url, WITHDRAWALS: String(withdrawals) }
    await using child = spawnChild(path, [], { env })
    const { code } = await child.exit
    assert.deepEqual([code, child.stderr], [0, ''])
    const { rows } = await postgres.db.query('SELECT balance, fencing_token FROM accounts')
    return { commits, stdout: child.stdout, row: rows[0] }
  }

  it('ten withdrawals at a time all count, and the lock is held at every commit', async () => {
    assert.deepEqual(await run(10), {
      commits: Array.from({ length: 10 }, () => true),
      stdout: '',
      row: { balance: 90, fencing_token: 10 },
    })
  })

  it('control: with the lock inside the transaction it is released before the commit', async () => {
    const { commits } = await run(10, (source) => {
      const head = 'async function withdraw(id: string, amount: number): Promise<void> {'
      return replaced(
        source,
        head,
        `${head} const database = await pool.connect()\n try { ${INSIDE_OUT} } finally { database.release() }`,
      )
    })
    assert.equal(commits.length, 10)
    assert(commits.includes(false))
  })

  it('a holder that lost the lock before it wrote is rejected by the token, and rolled back', async () => {
    // The holder is paused before it begins, and another one comes and goes.
    const { commits, stdout, row } = await run(1, undefined, async () => {
      await client.getFencedLock('lock:account:alice').forceUnlock()
      await client.getFencedLock('lock:account:alice').withLock(async ({ fencingToken }) => {
        const sell = `UPDATE accounts SET balance = balance - 50, fencing_token = $1 WHERE id = 'alice'`
        await postgres.db.query(sell, [fencingToken])
      })
    })
    assert.match(stdout, /^stale: .*\n$/)
    assert.deepEqual({ commits, row }, { commits: [], row: { balance: 50, fencing_token: 2 } })
  })
})
