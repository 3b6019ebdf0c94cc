/** A script of `generated.ts`. */
export interface Script {
  readonly name: string
  readonly sha1: string
  /** Whether it does nothing if it reaches Redis after its caller has stopped waiting for the reply. */
  readonly expires?: true
  readonly text: string
}

export type Argument = string | number

/** A call of a script, made by a function of `generated.ts`. */
export interface ScriptCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}
