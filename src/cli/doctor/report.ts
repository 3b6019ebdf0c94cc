import { GROUPS, type Result } from '../../doctor/check.js'
import type { Outcome } from '../../doctor/finding.js'
import { visible } from '../stderr.js'
import { counted, type Style, type Terminal } from '../terminal.js'

const MARKS: Record<Outcome, { mark: string; style: Style }> = {
  ok: { mark: '✓', style: 'green' },
  note: { mark: '·', style: 'cyan' },
  warning: { mark: '!', style: 'yellow' },
  problem: { mark: '✗', style: 'red' },
}
const INDENT = '      '

/** The lines for people: one for each check, and more of what is not as it should be. */
export function reportOf(all: readonly Result[], terminal: Terminal, isVerbose: boolean): string[] {
  const results = all.map(printable)
  const width = Math.max(...results.map(({ title }) => title.length))
  return GROUPS.flatMap((group) => {
    const ofGroup = results.filter((result) => result.group === group)
    if (ofGroup.length === 0) return []
    return [
      terminal.paint('bold', group),
      ...ofGroup.flatMap((result) => linesOf(result, width, terminal, isVerbose)),
      '',
    ]
  })
}

/** Before it is painted: what was found may be the words of a server. */
function printable(result: Result): Result {
  const { found, fix } = result
  return { ...result, found: visible(found.replace(/\s+/g, ' ')), fix: fix === null ? null : visible(fix) }
}

function linesOf(
  { outcome, title, found, why, fix, id }: Result,
  width: number,
  terminal: Terminal,
  isVerbose: boolean,
) {
  const { mark, style } = MARKS[outcome]
  const line = `  ${terminal.paint(style, mark)} ${title.padEnd(width)}  ${found}`
  if (!isVerbose && outcome === 'ok') return [line]
  return [
    line,
    ...(isVerbose || outcome !== 'note' ? labelled(terminal, 'why', why) : []),
    ...(fix === null ? [] : labelled(terminal, 'fix', fix)),
    ...(isVerbose ? labelled(terminal, 'id', id) : []),
  ]
}

function labelled(terminal: Terminal, label: string, text: string): string[] {
  const [first = '', ...others] = wrapped(text, Math.max(terminal.columns - INDENT.length - 6, 40))
  const pad = ' '.repeat(6)
  return [`${INDENT}${terminal.paint('dim', label.padEnd(6))}${first}`, ...others.map((line) => INDENT + pad + line)]
}

function wrapped(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line !== '' && line.length + word.length + 1 > width) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

/** "1 problem, 2 warnings, 3 notes, 12 as they should be" */
export function summaryOf(results: readonly Result[], terminal: Terminal): string {
  const count = (outcome: Outcome): number => results.filter((result) => result.outcome === outcome).length
  const parts = (['problem', 'warning', 'note'] as const).flatMap((outcome) => {
    const number = count(outcome)
    return number === 0 ? [] : [terminal.paint(MARKS[outcome].style, counted(number, outcome))]
  })
  return [...parts, `${count('ok')} of ${results.length} as they should be`].join(', ')
}

/** One line. */
export function jsonOf(results: readonly Result[]): string {
  return visible(JSON.stringify({ ok: !results.some(({ outcome }) => outcome === 'problem'), checks: results }))
}
