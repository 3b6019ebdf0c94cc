// Names the tests that had begun and not ended when a file was given up: the spec reporter shows only those that ended. The
// same test may run in several suites at a time, so they are counted.
const ENDS = ['test:pass', 'test:fail']

export default async function* (events) {
  const begun = new Map()
  for await (const { type, data } of events) {
    const key = `${data?.file}:${data?.line}:${data?.column} ${data?.nesting} ${data?.name}`
    const { file, name, count = 0 } = begun.get(key) ?? data ?? {}
    if (type === 'test:dequeue' && data.nesting > 0) begun.set(key, { file, name, count: count + 1 })
    if (ENDS.includes(type) && count > 0) begun.set(key, { file, name, count: count - 1 })
  }
  for (const { file, name, count } of begun.values()) if (count > 0) yield `Not ended: ${name} (${file})\n`
}
