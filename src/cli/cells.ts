// How many cells of a terminal a text takes.

/** Between two columns. */
export const GAP = '  '

const GRAPHEMES = new Intl.Segmenter()
const ASCII = /^[ -~]*$/
/** Takes two cells: CJK, full-width forms, emoji. */
const WIDE =
  /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]|\ufe0f/u

/** Of one line, which contains no control characters. */
export function cellsOf(text: string): number {
  if (ASCII.test(text)) return text.length
  let cells = 0
  for (const { segment } of GRAPHEMES.segment(text)) cells += WIDE.test(segment) ? 2 : 1
  return cells
}

/** The beginning of a text that takes more than this many cells, with an ellipsis. */
export function cutTo(cells: number, text: string): string {
  if (cellsOf(text) <= cells) return text
  let kept = ''
  let left = cells - 1
  for (const { segment } of GRAPHEMES.segment(text)) {
    left -= WIDE.test(segment) ? 2 : 1
    if (left < 0) break
    kept += segment
  }
  return `${kept}…`
}

/** Joins texts with gaps, on as many lines as they need. */
export function fill(texts: readonly string[], width: number, gap = GAP): string[] {
  const lines: string[] = []
  let left = 0
  for (const text of texts) {
    const cells = cellsOf(text)
    if (lines.length > 0 && cells + gap.length <= left) {
      lines.push(`${lines.pop()}${gap}${text}`)
      left -= cells + gap.length
    } else {
      lines.push(text)
      left = width - cells
    }
  }
  return lines
}
