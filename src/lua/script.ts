// Scripts and their calls.
import { createHash } from 'node:crypto'

/** A script of `generated.ts`. */
export interface Script {
  readonly name: string
  readonly sha1: string
  /** Whether it does nothing if it reaches Redis after its caller has stopped waiting for the reply. */
  readonly expires?: true
  readonly text: string
}

/** @param text  without its title @param expires  as of `Script` */
export function script(name: string, text: string, expires?: true): Script {
  const titled = `-- holdfast ${name}\n${text}`
  return { name, sha1: sha1Of(titled), ...(expires && { expires }), text: titled }
}

export function sha1Of(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}

export type Argument = string | number

/** A call of a script, made by a function of `generated.ts`. */
export interface ScriptCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}
