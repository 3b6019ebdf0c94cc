/** Past holders and waiters of a lock: a line for each client, the present one first. */
import type { Segment } from '../src/dashboard/api.js'
import { formatDuration, shownName, whoIs } from './format.js'

const WHOLE_MS = 15 * 60_000
const SHORTEST_MS = 60_000
const MAX_LINES = 8
/** The narrowest bar that can be seen, % of the width. */
const MIN_WIDTH = 0.6

interface Line {
  readonly who: string
  readonly segments: readonly Segment[]
}

export function Timeline({ segments }: { segments: readonly Segment[] }) {
  const lines = linesOf(segments)
  const oldest = Math.max(...segments.map(({ startedAgoMs }) => startedAgoMs))
  const spanMs = Math.min(WHOLE_MS, Math.max(SHORTEST_MS, oldest))
  return (
    <div class="timeline">
      <ul>
        {lines.slice(0, MAX_LINES).map(({ who, segments }) => (
          <li key={who}>
            <bdi>{who}</bdi>
            <div class="track">
              {segments.map((segment, index) => (
                <Bar key={index} segment={segment} spanMs={spanMs} />
              ))}
            </div>
          </li>
        ))}
      </ul>
      <div class="axis" aria-hidden="true">
        <span>{formatDuration(spanMs)} ago</span>
        <span>now</span>
      </div>
      <p class="legend">
        <span class="bar" data-role="holds" /> holds
        <span class="bar" data-role="waits" /> waits
        {lines.length > MAX_LINES && <span class="more">{lines.length - MAX_LINES} more not shown</span>}
      </p>
    </div>
  )
}

function Bar({ segment, spanMs }: { segment: Segment; spanMs: number }) {
  const from = Math.min(segment.startedAgoMs, spanMs)
  const to = segment.endedAgoMs ?? 0
  if (to >= spanMs) return null
  const left = 100 - (from / spanMs) * 100
  const width = Math.max(MIN_WIDTH, ((from - to) / spanMs) * 100)
  const title = describeBar(segment)
  return (
    <span
      class="bar"
      role="img"
      aria-label={title}
      title={title}
      data-role={segment.role}
      data-status={segment.status}
      style={{ left: `${Math.min(left, 100 - MIN_WIDTH)}%`, width: `${width}%` }}
    />
  )
}

function describeBar({ role, startedAgoMs, endedAgoMs, label }: Segment): string {
  const verb = role === 'holds' ? ['holds', 'held'] : ['waits', 'waited']
  const reason = label === undefined ? '' : ` (${shownName(label)})`
  if (endedAgoMs === null) return `${verb[0]} it for ${formatDuration(startedAgoMs)}${reason}`
  return `${verb[1]} for ${formatDuration(startedAgoMs - endedAgoMs)}, until ${formatDuration(endedAgoMs)} ago${reason}`
}

/** Holds and waits of a client are on one line: it first waits, then holds. The last that changed is on top. */
function linesOf(segments: readonly Segment[]): Line[] {
  const lines = new Map<string, Segment[]>()
  for (const segment of segments) {
    const who = whoIs(segment.client, segment.who)
    lines.set(who, [...(lines.get(who) ?? []), segment])
  }
  const rank = (line: Line): number =>
    Math.min(...line.segments.map(({ role, endedAgoMs }) => rankOf(role, endedAgoMs)))
  return [...lines].map(([who, some]) => ({ who, segments: some })).sort((a, b) => rank(a) - rank(b))
}

/** Present holders, present waiters, then the past. */
function rankOf(role: Segment['role'], endedAgoMs: number | null): number {
  if (endedAgoMs !== null) return endedAgoMs
  return role === 'holds' ? -2 : -1
}
