/**
 * Clients on a Redis in memory, in virtual time, while nearly everything goes wrong: see README.md here. For more lives:
 * npm run verify -- simulate.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SentinelMasterStatus } from '../../../src/adapters/sentinel-master-status.js'
import type { Hold } from '../../../src/index.js'
import { patched } from '../../support/patched.js'
import { CONTROLS } from './controls.js'
import { Lives } from './lives.js'
import { type Plan, WORKLOADS } from './plan.js'
import type { ReplicaSet } from './replica-set.js'
import { LEASE_MS, type Process, World } from './world.js'

/** For each workload. */
const LIVES = 30
const MOST_CONTROL_LIVES = 200

const lives = new Lives()
after(() => lives[Symbol.asyncDispose]())

function seeds(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1)
}

describe(`${LIVES} simulated lives`, () => {
  for (const workload of WORKLOADS) {
    it(`simulated lives keep every promise: ${workload}`, async (t) => {
      const { lives: lived, failures } = await lives.run({ seeds: seeds(LIVES), workload })
      const grants = lived.reduce((sum, life) => sum + life.grants, 0)
      const losses = lived.reduce((sum, life) => sum + life.losses, 0)
      t.diagnostic(`${grants} holds, ${losses} lost`)
      assert.deepEqual(
        failures.map(({ seed, message, smallest, timeline = [] }) => [seed, message, smallest, ...timeline].join('\n')),
        [],
      )
      // A leader stays one until something happens.
      const least = workload === 'election' ? 3 : 10
      assert(grants > least * LIVES && grants > 3 * losses, 'the storm is neither too weak nor too strong')
    })
  }

  it('simulated lives are the same for the same seed', async () => {
    const [first, second] = [await lives.run({ seeds: seeds(5) }), await lives.run({ seeds: seeds(5) })]
    assert.deepEqual(first, second)
    assert.equal(new Set(first.lives.map(({ digest }) => digest)).size, 5)
  })
})

describe('a seed', () => {
  it('a seed gives the same lives in another process, on the Node that npm runs on', async () => {
    const main = fileURLToPath(new URL('main.js', import.meta.url))
    const digestOn = async (node: string): Promise<unknown> => {
      const { stdout } = await promisify(execFile)(node, [main, '--lives', '20', '--seed', '7', '--json'])
      return JSON.parse(stdout.trim().split('\n').at(-1) ?? '').digest
    }
    const { npm_node_execpath: nodeOfNpm = process.execPath } = process.env
    const [here, there] = await Promise.all([process.execPath, nodeOfNpm].map(digestOn))
    assert.match(String(here), /^[0-9a-f]{64}$/)
    assert.equal(here, there)
  })
})

describe('the simulation', () => {
  for (const [control, { finding }] of Object.entries(CONTROLS)) {
    it(`the simulation finds that ${control}`, async (t) => {
      const { failures } = await lives.run({ seeds: seeds(MOST_CONTROL_LIVES), control })
      assert(failures[0], `not found in ${MOST_CONTROL_LIVES} lives`)
      assert.match(failures[0].message, finding)
      t.diagnostic(`seed ${failures[0].seed}: ${failures[0].message.split('\n')[0]}`)
    })
  }
})

const calm: Omit<Plan, 'seed'> = {
  workload: 'lock',
  topology: 'Sentinel',
  processes: 1,
  tasks: 1,
  stormMs: 0,
  faults: [],
  troubles: [],
}

describe('a master that was replaced without knowing it', () => {
  it('a master that was replaced unawares is left within one renewal by a client that only renews', async () => {
    for (const seed of seeds(10)) {
      const { clock, processes, replicaSet } = new World({ ...calm, seed }, {})
      const set = replicaSet as ReplicaSet
      const [process] = processes
      const hold = await clock.until(process?.client.getLock('a').lock() as Promise<Hold>)
      const isKnown = new Promise<void>((resolve) => {
        set.onSwitch = resolve // and nobody tells the client
      })
      const failover = set.failOver('isolated')
      await clock.until(isKnown)
      await clock.advance(LEASE_MS / 3 + 2_000)
      assert(!hold.isLive || set.master.isHeldBy('a', hold.holder), `seed ${seed}: it believes the old master`)
      await clock.until(Promise.all([failover, process?.close()]))
    }
  })
})

describe('a master that was just cut off, which others still confirm', () => {
  /** In how many of some lives a client that connects anew believes in a lock that the successor does not know. */
  async function deceived(): Promise<number> {
    let count = 0
    for (const seed of seeds(20)) {
      const { clock, processes, replicaSet } = new World({ ...calm, seed, processes: 2 }, {})
      const set = replicaSet as ReplicaSet
      const [process] = processes as [Process]
      const failover = set.failOver('isolated')
      set.master.dropStreams() // as when the network says so
      const isReplaced = new Promise<void>((resolve) => {
        set.onSwitch = resolve
      })
      await clock.advance(seed * 20)
      process.openAnother()
      const taken = process.client.getLock('a').tryLock({ leaseTimeMs: 60_000, waitTimeMs: 1_000 })
      const hold = await clock.until(taken.catch(() => null))
      await clock.until(isReplaced)
      if (hold?.isLive && !set.master.isHeldBy('a', hold.holder)) count++
      await clock.until(Promise.all([failover, ...processes.map((one) => one.close())]))
    }
    return count
  }

  it('a master that was just cut off, which others confirm, grants nothing to a new client', async () => {
    assert.equal(await deceived(), 0)
    const undo = patched(
      SentinelMasterStatus.prototype,
      'of',
      (original) =>
        async function (this: SentinelMasterStatus, runId, address) {
          const status = await original.call(this, runId, address)
          return status && { ...status, replicas: 0 }
        },
    )
    try {
      assert.notEqual(await deceived(), 0, 'it would, to one that does not ask for replicas')
    } finally {
      undo()
    }
  })
})
