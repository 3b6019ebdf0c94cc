import type { Finding, Outcome } from './finding.js'
import type { Server } from './server.js'
import type { DeploymentUnderTest } from './target.js'

/** One thing to look at. */
export interface Check {
  /** Stable: for `--json` and the docs. */
  readonly id: string
  readonly group: Group
  readonly title: string
  /** Why it matters for locks. */
  readonly why: string
  /** Of the deployment, and not of each master. */
  readonly isOnce?: boolean
  /** @returns undefined where the question does not arise */
  run(server: Server, deployment: DeploymentUnderTest): Promise<Finding | undefined> | Finding | undefined
}

export const GROUPS = ['Connection', 'Server', 'Data', 'Replication', 'Cluster', 'Locks'] as const
export type Group = (typeof GROUPS)[number]

/** What a check came to. */
export interface Result {
  readonly id: string
  readonly group: Group
  readonly title: string
  readonly outcome: Outcome
  readonly found: string
  readonly why: string
  /** null: there is nothing to fix. */
  readonly fix: string | null
}

/** A check as a result, whoever found what. */
export function resultOf({ id, group, title, why }: Omit<Check, 'run'>, { outcome, found, fix }: Finding): Result {
  return { id, group, title, outcome, found, why, fix: fix ?? null }
}
