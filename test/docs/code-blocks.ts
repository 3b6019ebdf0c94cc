import { readdirSync, readFileSync } from 'node:fs'
import { sep } from 'node:path'

/** The root of the project, from build/test/docs. */
export const ROOT = new URL('../../../', import.meta.url)

/** The pages for users, by path from the root. */
export const PAGES = [
  'README.md',
  'README.zh-CN.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync(new URL('docs/', ROOT), { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll(sep, '/'))
    .filter((file) => file.endsWith('.md'))
    .sort()
    .map((file) => `docs/${file}`),
]

/** A fenced block of a page. */
export interface CodeBlock {
  readonly page: string
  /** Line of its first line of code in the page, from 1. */
  readonly line: number
  /** The language after the opening fence, such as `ts`. */
  readonly language: string
  readonly lines: readonly string[]
  /** The names that it borrows: `<!-- example: client, lock -->` on the line before the fence. */
  readonly borrows: readonly string[]
}

export function readPage(page: string): string {
  return readFileSync(new URL(page, ROOT), 'utf8')
}

/** All fenced blocks of a page; a fence that is never closed is an error. */
export function codeBlocksOf(page: string): CodeBlock[] {
  const blocks: CodeBlock[] = []
  let open: { line: number; language: string; lines: string[]; borrows: string[] } | undefined
  let previous = ''
  readPage(page)
    .split('\n')
    .forEach((text, index) => {
      const fence = /^[\s>]*```(\w*)/.exec(text)
      if (open && fence) {
        blocks.push({ page, ...open })
        open = undefined
      } else if (open) {
        open.lines.push(text)
      } else if (fence) {
        open = { line: index + 2, language: fence[1] ?? '', lines: [], borrows: borrowedIn(previous) }
      }
      previous = text
    })
  if (open) throw new Error(`${page}:${open.line - 1}: this fence is never closed`)
  return blocks
}

function borrowedIn(line: string): string[] {
  return /^<!-- example: (.*) -->$/.exec(line)?.[1]?.split(/,\s*/) ?? []
}
