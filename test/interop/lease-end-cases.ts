import assert from 'node:assert/strict'
import type { Hold } from '../../src/index.js'
import { assertInTime, sleep } from '../support/wait-until.js'
import type { Case } from './case.js'
import type { LockFixture } from './fixture.js'
import { VALUES } from './kinds.js'
import { type JavaOwner, text, texts } from './redisson.js'

/** A lease that neither side asks for again. */
const LONG_MS = 60_000
/** By how much a group outlived its values until 0.2. */
const SHORT_SLACK_MS = 25
const TRIES = 60
/** How many groups have waiters at the same time. */
const SIDE_BY_SIDE = 10
/** Of a control: until the defect has shown itself once, which takes about ten, and more if the machine is slow. */
const MOST_TRIES = 400

/** Redisson's script grants what vanishes with the group if it runs in the last millisecond of it. */
export const LEASE_END_CASES: readonly Case[] = [
  {
    id: 'after-lease',
    title: 'what Java takes 22 to 26 ms after the end of a lease of Node stays, and Node is refused',
    kinds: ['fasterMulti'],
    topologies: ['single'],
    alone: true,
    async run(fixture) {
      let last = 0
      for (last = 1; last <= TRIES; last++) assert.equal(await isTakenTwice(fixture, last), false, `try ${last}`)
      const isShort = (group: string, endsAt: number) => fixture.backend.admin.pexpireat(group, endsAt + SHORT_SLACK_MS)
      let tries = 1
      while (!(await isTakenTwice(fixture, last++, isShort)))
        assertInTime(++tries <= MOST_TRIES, 'the control finds it')
      return `none of ${TRIES}; if the group ended then, try ${tries}`
    },
  },
  {
    id: 'waiters-at-end',
    title: 'when a lease of Java ends that Java and Node wait for, one of them gets it',
    kinds: ['fasterMulti'],
    topologies: ['single'],
    alone: true,
    async run(fixture) {
      let round = 0
      const taken = async (prepare?: Prepare): Promise<number> => {
        const groups = Array.from({ length: SIDE_BY_SIDE }, (_, index) => `${fixture.name}:${round}-${index}`)
        round++
        return (await Promise.all(groups.map((group) => isGrantedTwice(fixture, group, prepare)))).filter(Boolean)
          .length
      }
      let tries = 0
      for (; tries < TRIES; tries += SIDE_BY_SIDE) assert.equal(await taken(), 0)
      let found = 0
      let controls = 0
      while (found === 0 && controls < MOST_TRIES) {
        found = await taken((group, endsAt) => fixture.backend.admin.pexpireat(group, endsAt))
        controls += SIDE_BY_SIDE
      }
      assertInTime(found > 0, 'the control finds it')
      return `none of ${tries}; if the group ended with the lease, ${found} of ${controls}`
    },
  },
]

type Prepare = (group: string, endsAt: number) => Promise<unknown>

/** A thread in Java lets its lease end while another one and a task wait. @returns whether both get it */
async function isGrantedTwice(fixture: LockFixture, group: string, prepare?: Prepare): Promise<boolean> {
  const { admin } = fixture.backend
  const [client] = fixture.site.clients
  const lock = await fixture.site.redissons[0].lock('getMultiLock', text(group), texts(VALUES))
  const next = lock.by(`${group}-next`)
  assert.equal(await lock.by(`${group}-first`).tryLock(0, 400), true)
  const endsAt = await leaseEnd(fixture, group)
  let isInJava = false
  let hold: Hold | undefined
  const ends = new AbortController()
  const inJava = next.tryLock(5_000, LONG_MS).then((is) => (isInJava = is))
  const lockInNode = client.getFasterMultiLock(group, VALUES)
  const inNode = lockInNode.lock({ leaseTimeMs: LONG_MS, signal: ends.signal }).then(
    (one) => (hold = one),
    () => {},
  )
  await sleep(100)
  await prepare?.(group, endsAt)
  await sleep(endsAt + 60 - Date.now())
  const both = isInJava && hold !== undefined
  ends.abort()
  await inNode
  await hold?.unlock().catch(() => {}) // wakes Java
  await inJava
  await admin.del(group)
  return both
}

/** Node's lease ends, Java takes it a little later, then Node tries. @returns whether both have it */
async function isTakenTwice(fixture: LockFixture, turn: number, prepare?: Prepare): Promise<boolean> {
  const { admin } = fixture.backend
  const [client] = fixture.site.clients
  const group = `${fixture.name}:${turn}`
  const java = await ofJava(fixture, group)
  await client.getFasterMultiLock(group, VALUES).lock({ leaseTimeMs: 20 })
  const endsAt = await leaseEnd(fixture, group)
  await prepare?.(group, endsAt)
  await clockReaches(endsAt + 22 + ((turn / 4) % 4))
  assert.equal(await java.tryLock(0, LONG_MS), true)
  await sleep(5)
  const isInNode = (await client.getFasterMultiLock(group, VALUES).tryLock({ leaseTimeMs: LONG_MS })) !== null
  await admin.del(group)
  return isInNode
}

async function ofJava(fixture: LockFixture, group: string): Promise<JavaOwner> {
  const lock = await fixture.site.redissons[0].lock('getMultiLock', text(group), texts(VALUES))
  return lock.by(fixture.name)
}

/** Epoch ms. */
async function leaseEnd(fixture: LockFixture, group: string): Promise<number> {
  const { admin } = fixture.backend
  const fields = (await admin.hkeys(group)).filter((field) => field.endsWith(':expire_time'))
  return Math.max(...(await Promise.all(fields.map(async (field) => Number(await admin.hget(group, field))))))
}

/** No timer is as punctual. */
async function clockReaches(epochAt: number): Promise<void> {
  const left = () => epochAt - performance.timeOrigin - performance.now()
  await sleep(Math.max(0, left() - 5))
  while (left() > 0);
}
