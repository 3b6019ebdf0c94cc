/** Untrusted text, as it is shown and as it may be pasted. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forRedisCli, forShell } from '../../src/util/quoting.js'
import { visible, word } from '../../src/util/visible.js'

describe('text to paste into a shell', () => {
  for (const [text, expected] of [
    ['lock:order/7@eu+1.2-x', 'lock:order/7@eu+1.2-x'],
    ['-rf', "'-rf'"],
    ['a b', "'a b'"],
    ['$(reboot)', "'$(reboot)'"],
    ['{a}', "'{a}'"],
    ['注文', "'注文'"],
    ["it's", "$'it\\'s'"],
    ["a\nb'\\", "$'a\\u000ab\\'\\\\'"],
    ['\x1b[2J', "$'\\u001b[2J'"],
    ['', "''"],
  ] as const) {
    it(`${JSON.stringify(text)} becomes one word of a shell`, () => assert.equal(forShell(text), expected))
  }
})

describe('text to paste into redis-cli', () => {
  for (const [text, expected] of [
    ['lock:{a}$(b);注文é🚲', 'lock:{a}$(b);注文é🚲'],
    ['a b', '"a\\x20b"'],
    ['a\nFLUSHALL', '"a\\x0aFLUSHALL"'],
    ['a"b', '"a\\"b"'],
    ["it's", '"it\'s"'],
    ['a\\b', '"a\\\\b"'],
    ['注 \u202e\u00a0', '"注\\x20\\xe2\\x80\\xae\\xc2\\xa0"'],
    ['', '""'],
  ] as const) {
    it(`${JSON.stringify(text)} becomes one word of redis-cli`, () => assert.equal(forRedisCli(text), expected))
  }
})

describe('text to show', () => {
  it('visible text has no control character but tabs and line feeds, a word not even those', () => {
    assert.equal(visible('a\tb\n\r\x1b\u009b\u202ec'), 'a\tb\n\\u000d\\u001b\\u009b\\u202ec')
    assert.equal(word('a\tb\n\u2028\u2029\x07c'), 'a\\u0009b\\u000a\\u2028\\u2029\\u0007c')
  })
})
