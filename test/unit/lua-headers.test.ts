import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { lockAcquire, lockRenew, SCRIPTS } from '../../src/lua/generated.js'
import '../../src/lua/variants.js'

/** From the compiled test in build/test/unit. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

const SCRIPT = `--[[ lock/touch: set the lease of a lock.
     KEYS[1] lock         hash: holder -> hold count
     ARGV[1] leaseTimeMs  ms, > 0
     Reply   integer      1 done, 0 no such lock ]]
return redis.call('pexpire', KEYS[1], ARGV[1])
`

describe('lua/embed', () => {
  it('lua/embed embeds a script whose header names what its body reads', (t) => {
    const { exitCode, generated } = embed(t, SCRIPT)
    assert.equal(exitCode, 0)
    assert.match(generated, /^export function lockTouch\(lock: string, leaseTimeMs: Argument\): ScriptCall \{$/m)
    assert.match(generated, /^ \* lock\/touch: set the lease of a lock\.$/m)
  })

  const refused: readonly [title: string, from: string, to: string, why: RegExp][] = [
    [
      'a key that the body does not read',
      'ARGV[1] l',
      'KEYS[2] other        x\n     ARGV[1] l',
      /KEYS\[2\].*does not read/,
    ],
    [
      'an argument that the body does not read',
      'Reply',
      'ARGV[2] holder       x\n     Reply',
      /ARGV\[2\].*does not read/,
    ],
    [
      'no key that the body reads',
      "'pexpire', KEYS[1]",
      "'rename', KEYS[1], KEYS[2]",
      /reads KEYS\[2\].*does not name/,
    ],
    ['no argument that the body reads', ', ARGV[1])', ', ARGV[1], ARGV[2])', /reads ARGV\[2\].*does not name/],
    ['arguments out of order', 'ARGV[1] l', 'ARGV[2] l', /ARGV\[2\] out of order/],
    ['another script', 'lock/touch:', 'lock/release:', /must start with "lock\/touch: "/],
    ['no reply', 'Reply', 'Answer', /does not say what it replies/],
    ['no key at all', 'KEYS[1] lock ', 'A key   lock ', /names no key/],
  ]
  for (const [title, from, to, why] of refused) {
    it(`lua/embed rejects a header that names ${title}`, (t) => {
      const script = SCRIPT.replace(from, to)
      assert.notEqual(script, SCRIPT)
      const { exitCode, output } = embed(t, script)
      assert.equal(exitCode, 1)
      assert.match(output, why)
      assert.match(output, /src\/lua\/lock\/touch\.lua/)
    })
  }

  it('lua/embed rejects a script that calls a function with different keys', (t) => {
    const script = SCRIPT.replace('ARGV[1] l', 'KEYS[2] other        x\n     ARGV[1] l').replace(
      /return .*/,
      '-- include lease/extend\nextendLease(KEYS[1], ARGV[1])\nextendLease(KEYS[2], ARGV[1])',
    )
    const { exitCode, output } = embed(t, script)
    assert.equal(exitCode, 1)
    assert.match(output, /src\/lua\/lock\/touch\.lua calls extendLease with different keys: KEYS\[1\] and KEYS\[2\]/)
  })

  it('lua/embed sends a function with literal keys, and none that is not called', (t) => {
    const script = SCRIPT.replace(
      /return .*/,
      '-- include lease/extend\n-- include lease/cut\nextendLease(KEYS[1], ARGV[1])',
    )
    const { generated } = embed(t, script)
    assert.match(
      generated,
      /^const LOCK_TOUCH = script\('lock\/touch', `\$\{LEASE_EXTEND_PART\}extendLease\(KEYS,ARGV\[1\]\)\n`\)/m,
    )
    assert.match(
      generated,
      /^const LEASE_EXTEND_PART = `local function extendLease\(KEYS,lease\)\nif redis\.call\('pttl', KEYS\[1\]\)/m,
    )
  })

  it('lua/embed sends no spaces but those that separate something', (t) => {
    const script = SCRIPT.replace(
      /return .*/,
      "local n = 1 .. 'a  b' .. - -ARGV[1]\nreturn redis.call('pexpire', KEYS[1], n)",
    )
    const { generated } = embed(t, script)
    assert.match(generated, /`local n=1 \.\.'a {2}b'\.\.- -ARGV\[1\]\nreturn redis\.call\('pexpire', KEYS\[1\], n\)\n`/)
  })

  it('lua/embed rejects a script without a header', (t) => {
    const { exitCode, output } = embed(t, 'return 1\n')
    assert.equal(exitCode, 1)
    assert.match(output, /touch\.lua has no header/)
  })
})

describe('an embedded script', () => {
  it('an embedded script has the SHA-1 of its text, by which Redis knows it', () => {
    for (const { script } of [lockAcquire('a', 1, 'b'), lockRenew(['a'], ['b', 1])]) {
      assert.equal(script.sha1, createHash('sha1').update(script.text).digest('hex'))
    }
  })

  it('an embedded script has no comments but its name', () => {
    assert.deepEqual(
      SCRIPTS.flatMap(({ text }) => text.split('\n').slice(1)).filter((line) => line.includes('--')),
      [],
    )
  })

  it('an embedded script begins with its name, which the slow log of Redis shows', () => {
    assert.match(lockAcquire('a', 1, 'b').script.text, /^-- holdfast lock\/acquire\n/)
  })
})

interface Outcome {
  readonly exitCode: number | null
  readonly output: string
  readonly generated: string
}

/** Runs it on a copy of the sources to which `script` was added as lock/touch.lua. */
function embed(t: TestContext, script: string): Outcome {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-lua-'))
  t.after(() => rmSync(folder, { recursive: true }))
  cpSync(join(ROOT, 'scripts'), join(folder, 'scripts'), { recursive: true })
  cpSync(join(ROOT, 'src', 'lua'), join(folder, 'src', 'lua'), { recursive: true })
  writeFileSync(join(folder, 'src', 'lua', 'lock', 'touch.lua'), script)
  const program = join(folder, 'scripts', 'lua', 'embed.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  const generated = readFileSync(join(folder, 'src', 'lua', 'generated.ts'), 'utf8')
  return { exitCode: status, output: stdout + stderr, generated }
}
