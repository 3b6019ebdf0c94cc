/** From good to bad. A note is only information; a warning may cost locks one day; with a problem, locks fail or do not hold. */
export const STATUSES = ['ok', 'note', 'warning', 'problem'] as const
export type Status = (typeof STATUSES)[number]

export interface Finding {
  readonly status: Status
  /** The finding, as part of a line. */
  readonly message: string
  /** The remedy: a command, a setting, or a sentence. */
  readonly fix?: string
  /** For programs. */
  readonly details?: Readonly<Record<string, string | null>>
}

export function ok(message: string): Finding {
  return { status: 'ok', message }
}

export function note(message: string, fix?: string): Finding {
  return { status: 'note', message, ...(fix === undefined ? {} : { fix }) }
}

export function warning(message: string, fix: string): Finding {
  return { status: 'warning', message, fix }
}

export function problem(message: string, fix: string): Finding {
  return { status: 'problem', message, fix }
}

/** Added to a fix that sets something: CONFIG SET is lost at a restart. */
export const ALSO_IN_CONF = 'and in redis.conf or the console of the service'
