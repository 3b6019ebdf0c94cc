// What edge runtimes get of the entries that cannot run there: `exports` of package.json leads there.

// CommonJS: a bundler would refuse the names that a program imports from an ES module without them, and say no more.
module.exports = {}

throw new Error(
  'this part of Holdfast cannot run on an edge runtime, where only `holdfast` and `holdfast/http` can: the others need the ' +
    'TCP connections, files or diagnostics channels of Node.js. In Next.js, `export const runtime = "nodejs"` in this route ' +
    'allows them.',
)
