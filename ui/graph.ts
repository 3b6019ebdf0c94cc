/** Where the nodes of a graph go. A chunk of its own, loaded when somebody opens the graph: most of it is dagre. */
import { Graph as Dagre, layout } from '@dagrejs/dagre'
import type { Graph } from './graph-model.js'

const CHAR_PX = 7.4
const PADDING_PX = 44
const HEIGHT_PX = 34

export interface Point {
  readonly x: number
  readonly y: number
}

/** Everything in px. */
export interface Layout {
  readonly width: number
  readonly height: number
  /** By id; x and y are those of the centre. */
  readonly boxes: ReadonlyMap<string, Point & { readonly width: number; readonly height: number }>
  readonly lines: ReadonlyMap<string, readonly Point[]>
}

export function layOut({ nodes, edges }: Graph): Layout {
  const dagre = new Dagre({ multigraph: true })
  dagre.setGraph({ rankdir: 'LR', nodesep: 22, ranksep: 72, marginx: 20, marginy: 20 })
  for (const { id, title } of nodes.values())
    dagre.setNode(id, { width: Math.ceil(title.length * CHAR_PX) + PADDING_PX, height: HEIGHT_PX })
  for (const [id, { from, to }] of edges) dagre.setEdge(from, to, {}, id)
  layout(dagre)
  const { width = 0, height = 0 } = dagre.graph() as { width?: number; height?: number }
  const boxes = new Map(
    [...nodes.keys()].map((id) => [id, dagre.node(id) as ReturnType<Layout['boxes']['get']> & object]),
  )
  const lines = new Map([...edges].map(([id, { from, to }]) => [id, dagre.edge(from, to, id).points as Point[]]))
  return { width, height, boxes, lines }
}
