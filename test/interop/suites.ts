import type { Case } from './case.js'
import type { CaseContext, Thing } from './case-context.js'
import { CASES } from './cases.js'
import { CONFIG_SUITE } from './config-cases.js'
import { LockFixture, type Site } from './fixture.js'
import { KINDS, lacks } from './kinds.js'
import { LATCH_CASES } from './latch-cases.js'
import { LATCHES, LatchFixture } from './latches.js'
import { SEMAPHORE_CASES } from './semaphore-cases.js'
import { SEMAPHORES, SemaphoreFixture } from './semaphores.js'
import type { Setting, Topology } from './topologies.js'
import { TWIN_SUITE } from './twin-cases.js'

/** Kinds that share their cases: one table. */
export interface Suite {
  readonly kinds: readonly Thing[]
  readonly cases: readonly Pick<Job, 'id' | 'title'>[]
  /** Each case with each kind that it is about. */
  readonly jobs: readonly (SiteJob | PlainJob)[]
}

/** One case with one kind. */
export interface Job {
  readonly kind: Thing
  readonly id: string
  readonly title: string
  readonly isAbout: (setting: Setting) => boolean
  /** Why it cannot be done with this version of Redisson there, if so. */
  readonly notFor: (setting: Setting) => string | undefined
}

/** Both sides on some Redis. */
export interface SiteJob extends Job {
  readonly alone: boolean
  readonly dies: Case['dies']
  readonly begin: (site: Site) => { context: CaseContext; run: () => Promise<string | undefined> }
}

/** It needs this version of Redisson, but no site. */
export interface PlainJob extends Job {
  /** @param built where scripts/verify/interop.mjs put the versions */
  readonly run: (built: string, version: string) => Promise<string | undefined>
}

export const SUITES: readonly Suite[] = [
  suite(KINDS, CASES, (site, kind, name) => new LockFixture(site, kind, name)),
  suite(SEMAPHORES, SEMAPHORE_CASES, (site, kind, name) => new SemaphoreFixture(site, kind, name)),
  suite(LATCHES, LATCH_CASES, (site, kind, name) => new LatchFixture(site, kind, name)),
  TWIN_SUITE,
  CONFIG_SUITE,
]

function suite<B extends CaseContext>(
  kinds: readonly B['kind'][],
  cases: readonly Case<B>[],
  create: (site: Site, kind: B['kind'], name: string) => B,
): Suite {
  const job = (kind: B['kind'], one: Case<B>): SiteJob => ({
    kind,
    id: one.id,
    title: one.title,
    alone: one.alone ?? false,
    dies: one.dies,
    isAbout: ({ topology: { name, kinds: such, cases: about } }) =>
      (such?.includes(kind.name) ?? true) &&
      (one.topologies?.includes(name) ?? true) &&
      (about?.includes(one.id) ?? true),
    notFor: ({ version, topology }) =>
      lacks(version, kind) ?? tooFew(topology, kind) ?? one.notFor?.(kind, version, topology),
    begin(site) {
      const fixture = create(site, kind, `interop:${kind.name}:${one.id}`)
      return { context: fixture, run: () => one.run(fixture) }
    },
  })
  const isAbout = ({ kinds: about }: Case<B>, { name }: Thing) => about?.includes(name) ?? true
  const jobs = kinds.flatMap((kind) => cases.filter((one) => isAbout(one, kind)).map((one) => job(kind, one)))
  return { kinds, cases, jobs }
}

function tooFew({ backends }: Topology, { made }: Thing): string | undefined {
  if (made === undefined || made.servers <= backends) return undefined
  return 'it is made of locks on several Redis: how they are joined is shown on single servers, and each of them here'
}
