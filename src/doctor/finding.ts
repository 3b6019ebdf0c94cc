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

export function isWorse(one: Outcome, other: Outcome): boolean {
  return OUTCOMES.indexOf(one) > OUTCOMES.indexOf(other)
}
