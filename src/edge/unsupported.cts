// The whole package on an edge runtime, where it cannot run: `exports` of package.json leads there.

// CommonJS: a bundler would refuse the names that a program imports from an ES module without them, and say no more.
module.exports = {}

throw new Error(
  'holdfast cannot run on an edge runtime: it needs the TCP connections and timers of Node.js between requests. ' +
    "In Next.js, write `export const runtime = 'nodejs'` in this route. Elsewhere, take the lock in a service on Node.js.",
)
