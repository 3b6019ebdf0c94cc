// Names the tests that had begun and not ended when a file was given up: the spec reporter shows only those that ended.
const ENDS = ['test:complete', 'test:pass', 'test:fail']

export default async function* (events) {
  const begun = new Map()
  for await (const { type, data } of events) {
    const key = `${data?.file}:${data?.line}:${data?.column} ${data?.nesting} ${data?.name}`
    if (type === 'test:dequeue' && data.nesting > 0) begun.set(key, data)
    if (ENDS.includes(type)) begun.delete(key)
  }
  for (const { file, name } of begun.values()) yield `Not ended: ${name} (${file})\n`
}
