/**
 * State that all copies of Holdfast in one process share. There may be several: one by `import` and one by `require` where
 * a tool does not resolve both to the same file, two installed versions, or one that is part of a bundle.
 * @param name  with a number that changes when copies with the old and the new form could not use it together
 */
export function shared<T>(name: string, create: () => T): T {
  const all = globalThis as unknown as Record<symbol, T | undefined>
  const key = Symbol.for(`holdfast.${name}`)
  all[key] ??= create()
  return all[key]
}
