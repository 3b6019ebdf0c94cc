import { COMMANDS, type Keyspace, type Reply } from '../../src/testing/keyspace.js'

export type Undo = () => void
/** A command of the Redis in memory. */
export type Command = (keys: Keyspace, args: readonly string[]) => Reply

/** Replaces a method of an object. */
export function patched<T extends object, K extends keyof T>(
  object: T,
  name: K,
  patch: (original: T[K]) => T[K],
): Undo {
  const original = object[name]
  object[name] = patch(original)
  return () => {
    object[name] = original
  }
}

/** How to replace a command of the Redis in memory. */
export function command(name: string, patch: (original: Command) => Command): () => Undo {
  return () => patched(COMMANDS as Record<string, Command>, name, patch)
}
