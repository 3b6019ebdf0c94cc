import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'

/** From the compiled test in build/test/unit. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

const HEADER = `--[[ lock/touch: a script.
     KEYS[1] lock     hash
     Reply   integer  1 ]]
`

describe('translate-lua', () => {
  it('translate-lua translates a script', (t) => {
    const { exitCode, generated, output } = translate(t, "return redis.call('pttl', KEYS[1])\n")
    assert.equal(exitCode, 0, output)
    assert.match(generated, /'lock\/touch': .*\n *return \[redis\.call\("pttl", lua\.index\(KEYS, 1\)\)\]/)
  })

  const refused: readonly [title: string, line: string, why: RegExp][] = [
    ['an unknown function', "return string.rep('x', 3)", /the function "string\.rep"/],
    ['a global variable', 'count = 1', /a global variable "count"/],
    ['an unknown global', 'return count', /a global "count"/],
    ['a repeat loop', 'repeat local a = 1 until a == 1', /expected name, found "repeat"/],
    ['a loop over pairs', 'for k, v in pairs(KEYS) do return k end', /a for over anything but/],
    ['a table with fields', 'return { ok = 1 }', /expected }, found "="/],
    ['a method', 'return KEYS[1]:upper()', /the method "upper"/],
    ['a lazy pattern', "return (string.match(KEYS[1], 'a-b'))", /"-" in a pattern/],
    ['an unknown class in a pattern', "return (string.match(KEYS[1], '%w'))", /"%w" in a pattern/],
    ['a pattern that is computed', 'return (string.match(KEYS[1], KEYS[1]))', /a pattern that is not written out/],
    ['an unknown format', "return string.format('%x', 1)", /such a format/],
    ['all results of gsub', "return string.gsub(KEYS[1], 'a', redis)", /put it in parentheses/],
    ['another operator', 'return 2 ^ 3', /cannot read "\^/],
    ['text beyond ASCII', "return 'é'", /other characters than ASCII/],
    ['a command that is computed', 'return redis.call(KEYS[1])', /a command that is not named/],
    ['an assignment of several values', 'local a, b\na, b = b, a', /an assignment of several values/],
  ]
  for (const [title, line, why] of refused) {
    it(`translate-lua refuses ${title}, with the file and the line`, (t) => {
      const { exitCode, output } = translate(t, `local one = 1\n${line}\n`)
      assert.equal(exitCode, 1)
      assert.match(output, /src\/lua\/lock\/touch\.lua.*:[23]: /)
      assert.match(output, why)
    })
  }

  it('translate-lua cuts a call in parentheses to one result', (t) => {
    const { generated } = translate(t, 'local function two()\n  return 1, 2\nend\nreturn (two())\n')
    assert.match(generated, /return \[\(two\(\)\[0\]\)\]/)
  })

  it('translate-lua hides no variable of the script behind the counter of a loop', (t) => {
    const body = 'for n = 1, 3 do\n  for m = 1, n do\n    redis.call("lpos", KEYS[1], n)\n  end\nend\n'
    assert.match(translate(t, body).generated, /let n: any = [\s\S]*redis\.call\("lpos", lua\.index\(KEYS, 1\), n\)/)
  })
})

/** Runs the translator on a copy of the sources to which a script was added as lock/touch.lua. */
function translate(t: TestContext, body: string) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-lua-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const generated = join('src', 'testing', 'generated.ts')
  cpSync(join(ROOT, 'scripts'), join(folder, 'scripts'), { recursive: true })
  cpSync(join(ROOT, 'src', 'lua'), join(folder, 'src', 'lua'), { recursive: true })
  mkdirSync(join(folder, 'src', 'testing'))
  writeFileSync(join(folder, 'src', 'lua', 'lock', 'touch.lua'), HEADER + body)
  const program = join(folder, 'scripts', 'lua', 'translate.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  const text = status === 0 ? readFileSync(join(folder, generated), 'utf8') : ''
  return { exitCode: status, output: stdout + stderr, generated: text }
}
