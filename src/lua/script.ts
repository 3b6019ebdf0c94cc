/** A script, as `generated.ts` has it. */
export interface Script {
  readonly name: string
  readonly sha1: string
  readonly text: string
}

export type Argument = string | number

/** One call of a script, as the functions of `generated.ts` make them. */
export interface ScriptCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}
