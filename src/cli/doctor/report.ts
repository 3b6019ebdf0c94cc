// Findings as text and as JSON.
import { GROUPS, type Result } from '../../doctor/check.js'
import type { Status } from '../../doctor/finding.js'
import { counted } from '../../util/counted.js'
import { visible } from '../../util/visible.js'
import type { Style, Terminal } from '../terminal.js'

const MARKS: Record<Status, { mark: string; style: Style }> = {
  ok: { mark: '✓', style: 'green' },
  note: { mark: '·', style: 'cyan' },
  warning: { mark: '!', style: 'yellow' },
  problem: { mark: '✗', style: 'red' },
}
const INDENT = '      '

/** One line for each check, and reason and fix for those that are not OK. */
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

/** Done before painting. The message may be a reply of the server. */
function printable(result: Result): Result {
  const { message, fix } = result
  return { ...result, message: visible(message.replace(/\s+/g, ' ')), fix: fix === null ? null : visible(fix) }
}

function linesOf(
  { status, title, message, why, fix, id }: Result,
  width: number,
  terminal: Terminal,
  isVerbose: boolean,
) {
  const { mark, style } = MARKS[status]
  const line = `  ${terminal.paint(style, mark)} ${title.padEnd(width)}  ${message}`
  if (!isVerbose && status === 'ok') return [line]
  return [
    line,
    ...(isVerbose || status !== 'note' ? labelled(terminal, 'why', why) : []),
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

/** "1 problem, 2 warnings, 27 of 30 OK" */
export function summaryOf(results: readonly Result[], terminal: Terminal): string {
  const count = (status: Status): number => results.filter((result) => result.status === status).length
  const parts = (['problem', 'warning', 'note'] as const).flatMap((status) => {
    const number = count(status)
    return number === 0 ? [] : [terminal.paint(MARKS[status].style, counted(number, status))]
  })
  return [...parts, `${count('ok')} of ${results.length} OK`].join(', ')
}

export function jsonOf(results: readonly Result[]): string {
  return visible(JSON.stringify({ ok: !results.some(({ status }) => status === 'problem'), checks: results }))
}
