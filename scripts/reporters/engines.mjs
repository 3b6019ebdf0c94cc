// Reporter of `node --test`: a line of JSON for each test that ended, with the file it is in.
export default async function* (events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const error = data.details?.error
    // A suite fails by itself only if a hook does; its tests are reported one by one.
    if (data.details?.type === 'suite' && (type === 'test:pass' || error?.failureType === 'subtestsFailed')) continue
    const outcome = data.skip !== undefined ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed'
    const why = error?.cause?.message ?? error?.cause ?? error?.message
    yield `${JSON.stringify({ file: data.file, name: data.name, outcome, why: why && String(why) })}\n`
  }
}
