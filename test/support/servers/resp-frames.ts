const NOTHING = Buffer.alloc(0)
const BULK = new Set(['$', '!', '='])
const LIST = new Set(['*', '~', '>'])

/** Cuts a byte stream into whole RESP frames (RESP2 and RESP3): one request, reply or push message each. */
export class FrameCutter {
  #rest: Buffer = NOTHING

  /** The frames that `chunk` completes. */
  cut(chunk: Buffer): Buffer[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const frames: Buffer[] = []
    let at = 0
    for (let end = endOfFrame(bytes, 0); end !== undefined; end = endOfFrame(bytes, at)) {
      frames.push(bytes.subarray(at, end))
      at = end
    }
    this.#rest = bytes.subarray(at)
    return frames
  }
}

/** The words of a frame: the elements of an array or push, as text, one level deep; else the line itself. */
export function wordsOf(frame: Buffer): string[] {
  const head = lineAt(frame, 0)
  if (!head) return []
  if (!LIST.has(head.type)) return frame.toString('utf8').trim().split(' ')
  const words: string[] = []
  for (let at = head.end; at < frame.length; ) {
    const line = lineAt(frame, at)
    const end = endOfFrame(frame, at)
    if (!line || end === undefined) break
    words.push(BULK.has(line.type) ? frame.toString('utf8', line.end, end - 2) : line.text)
    at = end
  }
  return words
}

function endOfFrame(bytes: Buffer, start: number): number | undefined {
  let at = start
  for (let expected = 1; expected > 0; expected--) {
    const line = lineAt(bytes, at)
    if (!line) return undefined
    at = line.end
    const size = Number(line.text)
    if (BULK.has(line.type)) {
      if (size >= 0) at += size + 2
    } else if (LIST.has(line.type)) {
      expected += Math.max(size, 0)
    } else if (line.type === '%') {
      expected += 2 * size
    } else if (line.type === '|') {
      expected += 2 * size + 1 // attributes precede the reply that they belong to
    }
    if (at > bytes.length) return undefined
  }
  return at
}

function lineAt(bytes: Buffer, at: number): { type: string; text: string; end: number } | undefined {
  const newline = bytes.indexOf(0x0a, at)
  if (newline < 0) return undefined
  const text = bytes.toString('latin1', at, newline).trimEnd()
  return { type: text.charAt(0), text: text.slice(1), end: newline + 1 }
}
