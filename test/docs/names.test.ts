/** One prefix in all examples: what a reader copies works with the rule that `holdfast doctor --acl` prints. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { it } from 'node:test'
import { parseDoctorOptions } from '../../src/cli/doctor/options.js'
import { codeBlocksOf, PAGES, ROOT, readPage } from './code-blocks.js'

const PREFIX = parseDoctorOptions([], {})?.prefix ?? ''

/** A call with the name of a lock or synchronizer, or with an array of names. */
const CALL =
  /\b(?:get\w*(?:Lock|Semaphore|Latch)|withLock|elect|adopt|inspect|Locked)\((\[[^\]]*\]|'[^']+'|"[^"]+"|`[^`]+`)/g
/** The names of string locks are those of other libraries. */
const STRING_LOCKS = /\bgetStringLock\([^)]*\)/g
const COMMAND = /\bholdfast +(?:run|ls|top|who|watch|unlock) +('[^']+'|[\w:*{}.]+[\w:*{}.-]*)/g

it(`each name of a lock in the pages, the examples, the help and the comments begins with ${PREFIX}`, () => {
  assert(PREFIX !== '')
  const others: string[] = []
  let count = 0
  for (const { place, text } of [...calls(), ...commands()]) {
    count++
    if (!text.startsWith(PREFIX)) others.push(`${place}: ${text}`)
  }
  assert.deepEqual(others, [])
  assert(count > 100, `only ${count} names were found`)
})

it('no page and no help runs a job by npx, which does not pass SIGTERM on', () => {
  const byNpx = [...PAGES, ...filesOf('src/cli')].filter((place) => /\bnpx .*holdfast run\b/.test(source(place)))
  assert.deepEqual(byNpx, [])
})

function* calls() {
  const sources = ['src', 'examples']
    .flatMap(filesOf)
    .filter((file) => /^examples\/.*\.ts$|^src\/(?!testing)/.test(file))
  for (const place of [...PAGES, ...sources, 'site/needs.mjs']) {
    const isPage = place.endsWith('.md')
    const text = isPage || !place.startsWith('src/') ? source(place) : commentsOf(source(place))
    for (const [, names = ''] of text.replace(STRING_LOCKS, '').matchAll(CALL))
      for (const [, , name = ''] of names.matchAll(/(['"`])((?:(?!\1).)+)\1/g)) yield { place, text: name }
  }
}

function* commands() {
  for (const place of PAGES) {
    const blocks = codeBlocksOf(place)
    const inline = [
      ...readPage(place)
        .replace(/^```[\s\S]*?^```$/gm, '')
        .matchAll(/`([^`]+)`/g),
    ].map(([, code]) => code)
    for (const line of [...blocks.flatMap(({ lines }) => lines), ...inline]) yield* commandIn(place, line ?? '')
  }
  for (const place of filesOf('src/cli')) {
    for (const line of source(place).split('\n')) {
      if (/^ {2}holdfast |'(?:npx )?holdfast /.test(line)) yield* commandIn(place, line)
    }
  }
}

/** Of a shell, or of a list in YAML or JSON. */
function* commandIn(place: string, line: string) {
  for (const [, name = ''] of line.replace(/[",]+/g, ' ').matchAll(COMMAND))
    yield { place, text: name.replaceAll("'", '') }
}

function filesOf(folder: string): string[] {
  return readdirSync(new URL(`${folder}/`, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/${file}`)
}

function commentsOf(text: string): string {
  return (text.match(/\/\*\*[\s\S]*?\*\//g) ?? []).join('\n')
}

function source(file: string): string {
  return readFileSync(new URL(file, ROOT), 'utf8')
}
