/** Patterns of Redis, as regular expressions: what they match is what Redis says. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { globToRegExp } from '../../src/util/glob.js'

const table: readonly [pattern: string, matches: readonly string[], others: readonly string[]][] = [
  ['lock:*', ['lock:', 'lock:a', 'lock:a\nb'], ['lock', 'a lock:', 'Lock:a']],
  ['*:b', [':b', 'a\n:b'], ['a:bc', 'b']],
  ['a?c', ['abc', 'a\nc', 'a?c'], ['ac', 'abbc']],
  ['[ab]c', ['ac', 'bc'], ['cc', 'abc', '[ab]c']],
  ['[^a-c]', ['d', '\n', '^'], ['a', 'b', 'c', '']],
  ['[^]', [], ['a', '^']],
  ['a[]', [], ['a', 'a[]']],
  ['[[]x', ['[x'], ['x', '[[]x']],
  ['[a\\]]', ['a', ']'], ['\\', 'a]']],
  ['[a\\\n]', ['a', '\n'], ['\\']],
  ['\\*', ['*'], ['a', '\\*', '']],
  ['\\\n', ['\n'], ['n']],
  ['a\\?b', ['a?b'], ['acb']],
  ['a\nb', ['a\nb'], ['a b']],
  ['a.c|d+(e)$^{1}/-', ['a.c|d+(e)$^{1}/-'], ['abc', 'd']],
  ['[a', ['[a'], ['a']],
]

for (const [pattern, matches, others] of table) {
  it(`a pattern matches what it matches in Redis: ${JSON.stringify(pattern)}`, () => {
    const regExp = globToRegExp(pattern)
    for (const text of matches) assert(regExp.test(text), `${regExp} matches ${JSON.stringify(text)}`)
    for (const text of others) assert(!regExp.test(text), `${regExp} does not match ${JSON.stringify(text)}`)
  })
}
