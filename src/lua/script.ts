// Scripts and their calls. Bundled with generated.ts for both module systems, so it imports nothing of Node.

/** A script of `generated.ts`. */
export interface Script {
  readonly name: string
  /** By which Redis knows it: see variants.ts. */
  readonly sha1: string
  /** Whether it does nothing if it reaches Redis after its caller has stopped waiting for the reply. */
  readonly expires?: true
  readonly text: string
}

/** @param text  without its title @param expires  as of `Script` */
export function script(name: string, text: string, expires?: true): Script {
  return { name, sha1: '', ...(expires && { expires }), text: `-- holdfast ${name}\n${text}` }
}

export type Argument = string | number

/** A call of a script, made by a function of `generated.ts`. */
export interface ScriptCall {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}
