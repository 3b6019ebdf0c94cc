/**
 * Three processes take part in an election, each by a network of its own, and the leader is killed, stopped, cut off or ended
 * again and again. Each reports the deadline of its leadership; no two of these periods may overlap.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { type Belief, monotonicMs, overlapsIn, staleTokensIn } from '../harness/beliefs.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy, type TcpProxy } from '../support/servers/tcp-proxy.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const CANDIDATE = new URL('../support/processes/candidate-process.js', import.meta.url)
const LEASE_MS = 1_500
/** Beyond the lease: a poll, a reconnect, and a busy machine. */
const BOUND_MS = 10_000

let server: RedisServer

before(async () => {
  server = await startRedis()
})
beforeEach(() => server.admin.flushall())
after(() => server.stop())

/** A time during which a process believed that it was the leader. */
interface Term extends Belief {
  to: number
  readonly token: string
  readonly candidate: Candidate
}

interface Candidate {
  readonly proxy: TcpProxy
  child: Child
}

class Campaign implements AsyncDisposable {
  readonly terms: Term[] = []
  readonly losses: unknown[] = []
  readonly #mode: 'heeds' | 'asks'
  readonly #leaseMs: number
  readonly #candidates: Candidate[] = []

  constructor(mode: 'heeds' | 'asks' = 'heeds', leaseMs = LEASE_MS) {
    this.#mode = mode
    this.#leaseMs = leaseMs
  }

  get proxies(): TcpProxy[] {
    return this.#candidates.map(({ proxy }) => proxy)
  }

  async start(count = 3): Promise<this> {
    for (let index = 0; index < count; index++) {
      const proxy = await startProxy(server.port)
      const candidate = { proxy, child: this.#spawn(proxy) }
      this.#candidates.push(candidate)
      void this.#listen(candidate)
    }
    await this.leaderAfter(0, 60_000)
    return this
  }

  /** Another process in its place, as a supervisor starts it. */
  restart(candidate: Candidate): void {
    candidate.child = this.#spawn(candidate.proxy)
    void this.#listen(candidate)
  }

  /** The term that began last, once one has begun after `at`. */
  async leaderAfter(at: number, timeoutMs = LEASE_MS + BOUND_MS): Promise<Term> {
    const begun = (): Term | undefined => this.terms.find(({ from }) => from > at)
    const message = (): string => this.#candidates.map(({ child }) => child.stderr).join('\n')
    await waitUntil(begun, { timeoutMs, message: () => `a leader is elected\n${message()}` })
    return this.terms.at(-1) as Term
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#candidates.map(({ child }) => child.stop()))
    await Promise.all(this.#candidates.map(({ proxy }) => proxy.stop()))
  }

  #spawn(proxy: TcpProxy): Child {
    return spawnChild(CANDIDATE, [proxy.url, String(this.#leaseMs), this.#mode])
  }

  async #listen(candidate: Candidate): Promise<void> {
    const { child } = candidate
    try {
      for (;;) this.#heard(candidate, await child.nextMessage(() => true, 600_000))
    } catch {
      // It has ended.
    }
  }

  #heard(candidate: Candidate, message: Record<string, unknown>): void {
    const {
      at,
      token,
      from = 0,
      to,
      reason,
    } = message as { at: string; token: string; from?: number; to: number; reason: string }
    if (at === 'elected') this.terms.push({ lock: 'leader', from, to: from, token, candidate })
    const term = this.terms.find((each) => each.token === token)
    if (term && (at === 'leads' || at === 'resigned')) term.to = to
    if (at === 'lost') this.losses.push(reason)
  }
}

/** What becomes of a leader. @returns when it can lead no more, on the clock of all processes */
type Fault = (term: Term, campaign: Campaign) => Promise<number>

const FAULTS: Record<string, Fault> = {
  async 'is killed'({ candidate }, campaign) {
    const at = monotonicMs()
    await candidate.child.stop()
    await campaign.leaderAfter(at)
    campaign.restart(candidate)
    return at
  },
  async 'is stopped for longer than its lease'({ candidate }, campaign) {
    const at = monotonicMs()
    candidate.child.freeze()
    await campaign.leaderAfter(at)
    await sleep(LEASE_MS)
    candidate.child.thaw()
    return at
  },
  async 'is cut off from Redis for longer than its lease'({ candidate }, campaign) {
    const at = monotonicMs()
    candidate.proxy.freeze()
    await campaign.leaderAfter(at)
    await sleep(LEASE_MS)
    candidate.proxy.pass()
    return at
  },
  async 'is cut off from Redis, and so are all others'(_term, campaign) {
    for (const proxy of campaign.proxies) proxy.freeze()
    await sleep(2 * LEASE_MS)
    const at = monotonicMs()
    for (const proxy of campaign.proxies) proxy.pass()
    return at
  },
}

describe('an election of three processes', { concurrency: false }, () => {
  for (const [title, fault] of Object.entries(FAULTS)) {
    it(`the leader ${title}: the next one leads within the lease and ${BOUND_MS / 1_000} s, and never two at a time`, async (test) => {
      await using campaign = await new Campaign().start()
      for (let round = 0; round < 2; round++) {
        const term = campaign.terms.at(-1) as Term
        const at = await fault(term, campaign)
        const next = await campaign.leaderAfter(at)
        test.diagnostic(`the next leader after ${Math.round(next.from - at)} ms, with a lease of ${LEASE_MS} ms`)
        assert.notEqual(next.token, term.token)
        await sleep(LEASE_MS / 2)
      }
      assert.deepEqual(overlapsIn(campaign.terms), [])
      assert.deepEqual(staleTokensIn(campaign.terms), [])
    })
  }

  it('control: leaders that ask Redis instead of heeding their deadline are two at a time', async () => {
    await using campaign = await new Campaign('asks').start()
    await FAULTS['is cut off from Redis for longer than its lease']?.(campaign.terms.at(-1) as Term, campaign)
    await waitUntil(() => overlapsIn(campaign.terms).length > 0, { timeoutMs: BOUND_MS })
  })

  it('the leader gets SIGTERM: it resigns, and the next one leads long before its lease ends', async (test) => {
    const leaseMs = 60_000
    await using campaign = await new Campaign('heeds', leaseMs).start()
    for (let round = 0; round < 3; round++) {
      const { candidate, token } = campaign.terms.at(-1) as Term
      const at = monotonicMs()
      process.kill(candidate.child.pid as number, 'SIGTERM')
      const next = await campaign.leaderAfter(at, leaseMs / 3)
      test.diagnostic(`the next leader after ${Math.round(next.from - at)} ms, with a lease of ${leaseMs} ms`)
      assert.notEqual(next.token, token)
      assert.deepEqual(await candidate.child.exit, { code: null, signal: 'SIGTERM' })
      campaign.restart(candidate)
    }
    assert.deepEqual(overlapsIn(campaign.terms), [])
    assert.deepEqual(campaign.losses, [])
  })
})
