import type { CaseContext } from './case-context.js'
import { TORN_NAMES } from './cluster-cases.js'
import type { LockFixture, Mortals } from './fixture.js'
import type { Topology, TopologyName } from './topologies.js'

export interface Case<B extends CaseContext = LockFixture> {
  /** Of its names and threads; short. */
  readonly id: string
  /** A fact, in the present tense. */
  readonly title: string
  /** The kinds that it applies to; absent: all. */
  readonly kinds?: readonly string[]
  /** It measures time, so nothing else may run at the same time. */
  readonly alone?: true
  /** It waits for the site's doomed JVM, Node process or master to die, which happens when all such cases are ready. */
  readonly dies?: keyof Mortals
  /** The topologies that it applies to; absent: all. */
  readonly topologies?: readonly TopologyName[]
  /** Why this kind cannot do it with this version of Redisson there, if so. */
  readonly notFor?: (kind: B['kind'], version: string, topology: Topology) => string | undefined
  /** Resolves to a note for the table, such as a measured time. */
  run(fixture: B): Promise<string | undefined>
}

const ODD_NAMES = ['{shop}:order', ' two words\n', 'größe:"7"%20\\', '鎖🔒']

/** Names with special characters that work in the topology of the case. */
export function oddNames({ name, site: { topology } }: CaseContext): string[] {
  return [...ODD_NAMES, ...(topology.name === 'cluster' ? [] : TORN_NAMES)].map((odd) => `${name}:${odd}`)
}
