/** From good to bad. A note is good to know; a warning may cost locks one day; with a problem they do not work or not hold. */
export const OUTCOMES = ['ok', 'note', 'warning', 'problem'] as const
export type Outcome = (typeof OUTCOMES)[number]

export interface Finding {
  readonly outcome: Outcome
  /** What is there, as part of a line. */
  readonly found: string
  /** What to do: a command, a setting, or a sentence. */
  readonly fix?: string
}

export function ok(found: string): Finding {
  return { outcome: 'ok', found }
}

export function note(found: string, fix?: string): Finding {
  return finding('note', found, fix)
}

export function warning(found: string, fix: string): Finding {
  return finding('warning', found, fix)
}

export function problem(found: string, fix: string): Finding {
  return finding('problem', found, fix)
}

function finding(outcome: Outcome, found: string, fix: string | undefined): Finding {
  return fix === undefined ? { outcome, found } : { outcome, found, fix: fix }
}

export function isWorse(one: Outcome, other: Outcome): boolean {
  return OUTCOMES.indexOf(one) > OUTCOMES.indexOf(other)
}
