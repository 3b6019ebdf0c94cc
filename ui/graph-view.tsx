/** The wait-for graph, and each deadlock in words. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { DeadlockRow } from '../src/dashboard/api.js'
import { explain, getDeadlocks } from './api.js'
import { isOld } from './connection.js'
import { Remaining } from './counters.js'
import { plural, shownName, visible, whoIs } from './format.js'
import type { Layout } from './graph.js'
import { type Edge, type Graph, graphOf, type Node } from './graph-model.js'
import { type Polled, usePolled } from './polled.js'
import { activeId, openId, rows, search, tab, totals, trait } from './state.js'
import { SIGNS } from './status.js'

const POLL_MS = 2_000
const MAX_ERROR = 300

export function GraphView() {
  // A new one is shown at once.
  const polled = usePolled(getDeadlocks, POLL_MS, String(totals.value?.deadlocks))
  const graph = graphOf(rows.value.values(), polled.value?.cycles ?? [])
  const { layout, error } = useLayout(graph)
  return (
    <section class="graph-view" aria-label="Wait-for graph">
      <Deadlocks polled={polled} />
      {error !== undefined && <p class="note">The graph could not be loaded: {visible(error, MAX_ERROR)}</p>}
      {graph.nodes.size === 0 ? (
        <div class="empty">
          <p>{isOld.value ? 'Who is waiting is not known.' : 'Nobody is waiting.'}</p>
          <p class="muted">The graph shows who is waiting for whom, as soon as somebody does.</p>
        </div>
      ) : (
        layout && <Drawing graph={layout.graph} layout={layout.layout} />
      )}
      {graph.nodes.size > 0 && <Legend />}
      {graph.more > 0 && <p class="muted">{plural(graph.more, 'more contended lock')} not drawn.</p>}
    </section>
  )
}

function Deadlocks({ polled: { value, at, error } }: { polled: Polled<Awaited<ReturnType<typeof getDeadlocks>>> }) {
  if (value === undefined) return error ? <p class="note">{explain(error)}</p> : null
  return (
    <div class="deadlocks">
      {value.cycles.map((cycle) => (
        <Deadlock key={keyOf(cycle)} cycle={cycle} at={at} title="⚠ Deadlock" tone="bad" />
      ))}
      {value.suspected.map((cycle) => (
        <Deadlock key={keyOf(cycle)} cycle={cycle} at={at} title="Suspected deadlock" tone="warning" />
      ))}
    </div>
  )
}

interface DeadlockProps {
  readonly cycle: DeadlockRow
  readonly at: number
  readonly title: string
  readonly tone: string
}

function Deadlock({ cycle: { locks, owners, endsInMs }, at, title, tone }: DeadlockProps) {
  return (
    <article class="card" data-tone={tone}>
      <div class="card-head">
        <strong>{title}</strong>
        <span class="muted">
          {endsInMs === null ? (
            'Nobody gives up: it lasts until a lock is broken.'
          ) : (
            <>
              Ends in <Remaining until={at + endsInMs} />, when a waiter gives up.
            </>
          )}
        </span>
      </div>
      <ol>
        {owners.map((owner, index) => (
          <li key={owner.holder}>
            <bdi>{whoIs(owner.client, owner.holder)}</bdi> holds <LockLink lock={locks[index]} /> and waits for{' '}
            <LockLink lock={locks[(index + 1) % locks.length]} />
          </li>
        ))}
      </ol>
    </article>
  )
}

function LockLink({ lock }: { lock: DeadlockRow['locks'][number] | undefined }) {
  if (lock === undefined) return null
  return (
    <button type="button" class="link" onClick={() => openLock(lock.id)}>
      <bdi>{shownName(lock.name)}</bdi>
    </button>
  )
}

function openLock(id: string): void {
  search.value = ''
  trait.value = 'all'
  tab.value = 'locks'
  activeId.value = id
  openId.value = id
}

/** Lays out again only if something has come or gone: a graph that jumps every second cannot be read. */
function useLayout(graph: Graph): { layout?: { graph: Graph; layout: Layout }; error?: string } {
  const [result, setResult] = useState<{ layout?: { graph: Graph; layout: Layout }; error?: string }>({})
  const shape = [...graph.nodes.keys(), ...graph.edges.keys()].join('\n')
  const latest = useRef(graph)
  latest.current = graph
  useEffect(() => {
    let isCurrent = true
    import('./graph.js').then(
      ({ layOut }) => isCurrent && setResult({ layout: { graph: latest.current, layout: layOut(latest.current) } }),
      (error: unknown) => isCurrent && setResult({ error: String(error) }),
    )
    return () => {
      isCurrent = false
    }
  }, [shape])
  return result
}

function Drawing({ graph, layout }: { graph: Graph; layout: Layout }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys
    <section class="drawing" tabIndex={0} aria-label="Drawing of the graph">
      <svg width={layout.width} height={layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`}>
        <title>Owners wait for locks, and locks are held by owners</title>
        <Arrow id="arrow" />
        <Arrow id="arrow-bad" />
        {[...graph.edges].map(([id, edge]) => (
          <EdgeLine key={id} edge={edge} points={layout.lines.get(id) ?? []} />
        ))}
        {[...graph.nodes.values()].map((node) => (
          <NodeBox key={node.id} node={node} box={layout.boxes.get(node.id)} />
        ))}
      </svg>
    </section>
  )
}

function Legend() {
  return (
    <p class="graph-legend muted">
      <Sample kind="waits" /> waits for
      <Sample kind="held" /> is held by
      <span>Dashed outline: its client does not respond.</span>
    </p>
  )
}

function Sample({ kind }: { kind: Edge['kind'] }) {
  return (
    <svg width="36" height="10" aria-hidden="true" class="edge" data-kind={kind}>
      <path d="M0 5H35" />
    </svg>
  )
}

function Arrow({ id }: { id: string }) {
  return (
    <marker id={id} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 8 4 0 8z" class={id} />
    </marker>
  )
}

function EdgeLine({ edge, points }: { edge: Edge; points: readonly { x: number; y: number }[] }) {
  return (
    <g class="edge" data-kind={edge.kind} data-bad={edge.isDeadlocked}>
      <path d={pathOf(points)} marker-end={`url(#arrow${edge.isDeadlocked ? '-bad' : ''})`} />
    </g>
  )
}

/** A curve that leaves and arrives at its ends, and passes near the points between. */
function pathOf([first, ...rest]: readonly { x: number; y: number }[]): string {
  if (first === undefined) return ''
  const curve = rest.map((point, index) => {
    const next = rest[index + 1]
    if (next === undefined) return `L${point.x} ${point.y}`
    return `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`
  })
  return `M${first.x} ${first.y}${curve.join('')}`
}

function NodeBox({ node, box }: { node: Node; box: ReturnType<Layout['boxes']['get']> }) {
  if (box === undefined) return null
  const { lockId } = node
  const isLock = lockId !== undefined
  const open = isLock
    ? {
        role: 'button' as const,
        tabindex: 0, // in SVG, attributes are case-sensitive
        'aria-label': `Open ${node.title}`,
        onClick: () => openLock(lockId),
        onKeyDown: (event: KeyboardEvent) => event.key === 'Enter' && openLock(lockId),
      }
    : {}
  return (
    <g
      class={`node ${isLock ? 'node-lock' : 'node-owner'}`}
      data-status={node.status}
      data-bad={node.isDeadlocked}
      transform={`translate(${box.x - box.width / 2} ${box.y - box.height / 2})`}
      {...open}
    >
      <rect width={box.width} height={box.height} rx={isLock ? 6 : box.height / 2} />
      <text x={box.width / 2} y={box.height / 2} text-anchor="middle" dominant-baseline="central">
        {isLock ? node.title : `${SIGNS[node.status ?? 'unlisted']} ${node.title}`}
      </text>
    </g>
  )
}

function keyOf({ locks, owners }: DeadlockRow): string {
  return [...locks.map(({ id }) => id), ...owners.map(({ holder }) => holder)].join(' ')
}
