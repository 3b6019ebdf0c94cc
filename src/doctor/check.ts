import type { Server } from './server.js'
import type { Patient } from './target.js'

/** From good to bad. A note is good to know; a warning may cost locks one day; with a problem they do not work or not hold. */
export const OUTCOMES = ['ok', 'note', 'warning', 'problem'] as const
export type Outcome = (typeof OUTCOMES)[number]

export interface Finding {
  readonly outcome: Outcome
  /** What is there, as part of a line. */
  readonly found: string
  /** What to do: a command, a setting, or a sentence. */
  readonly mend?: string
}

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
  look(server: Server, patient: Patient): Promise<Finding | undefined> | Finding | undefined
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
  /** null: there is nothing to mend. */
  readonly mend: string | null
}

export function ok(found: string): Finding {
  return { outcome: 'ok', found }
}

export function note(found: string, mend?: string): Finding {
  return finding('note', found, mend)
}

export function warning(found: string, mend: string): Finding {
  return finding('warning', found, mend)
}

export function problem(found: string, mend: string): Finding {
  return finding('problem', found, mend)
}

function finding(outcome: Outcome, found: string, mend: string | undefined): Finding {
  return mend === undefined ? { outcome, found } : { outcome, found, mend }
}

/** A check as a result, whoever found what. */
export function resultOf({ id, group, title, why }: Omit<Check, 'look'>, { outcome, found, mend }: Finding): Result {
  return { id, group, title, outcome, found, why, mend: mend ?? null }
}

export function isWorse(one: Outcome, other: Outcome): boolean {
  return OUTCOMES.indexOf(one) > OUTCOMES.indexOf(other)
}
