// A check, and its result.
import type { Finding, Status } from './finding.js'
import type { Server } from './server.js'
import type { DeploymentUnderTest } from './target.js'

export interface Check {
  /** Stable: used in `--json` and the docs. */
  readonly id: string
  readonly group: Group
  readonly title: string
  /** Why it matters for locks. */
  readonly why: string
  /** Runs once for the deployment, not on each master. */
  readonly isOnce?: boolean
  /** @returns undefined if it does not apply */
  run(server: Server, deployment: DeploymentUnderTest): Promise<Finding | undefined> | Finding | undefined
}

export const GROUPS = ['Connection', 'Server', 'Data', 'Replication', 'Cluster', 'Locks'] as const
export type Group = (typeof GROUPS)[number]

export interface Result {
  readonly id: string
  readonly group: Group
  readonly title: string
  readonly status: Status
  readonly message: string
  readonly why: string
  /** null: there is nothing to fix. */
  readonly fix: string | null
  readonly details?: Finding['details']
}

export function resultOf({ id, group, title, why }: Omit<Check, 'run'>, finding: Finding): Result {
  const { status, message, fix, details } = finding
  return { id, group, title, status, message, why, fix: fix ?? null, ...(details && { details }) }
}
