/** From each node to its successors: the keys of a Map, or a Set. */
export type Graph<T> = ReadonlyMap<T, { keys(): IterableIterator<T> }>

/** A node on the way of the depth-first search. */
interface Visit<T> {
  readonly node: T
  readonly successors: IterableIterator<T>
  readonly index: number
  /** The lowest index that is reached from here. */
  low: number
  isOpen: boolean
}

/**
 * Cycles of a graph without a node in common, until the rest has none: of each strongly connected component the shortest
 * cycle through one of its nodes, then the same for what is left of it.
 * @returns of each cycle its nodes in order; the last one leads to the first
 */
export function cyclesIn<T>(graph: Graph<T>): T[][] {
  const cycles: T[][] = []
  const components = componentsOf(graph, new Set(graph.keys()))
  for (const component of components) {
    const cycle = cycleWithin(graph, component)
    if (!cycle) continue
    cycles.push(cycle)
    for (const node of cycle) component.delete(node)
    if (component.size > 0) components.push(...componentsOf(graph, component))
  }
  return cycles
}

/** The strongly connected components (Tarjan), without recursion: a chain of waits may be long. */
function componentsOf<T>(graph: Graph<T>, within: ReadonlySet<T>): Set<T>[] {
  const components: Set<T>[] = []
  const visits = new Map<T, Visit<T>>()
  const open: Visit<T>[] = []
  const path: Visit<T>[] = []
  const enter = (node: T): void => {
    const successors = graph.get(node)?.keys() ?? new Set<T>().keys()
    const visit = { node, successors, index: visits.size, low: visits.size, isOpen: true }
    visits.set(node, visit)
    open.push(visit)
    path.push(visit)
  }
  const leave = (visit: Visit<T>): void => {
    path.pop()
    const previous = path.at(-1)
    if (previous) previous.low = Math.min(previous.low, visit.low)
    if (visit.low !== visit.index) return
    const members = open.splice(open.lastIndexOf(visit))
    for (const member of members) member.isOpen = false
    components.push(new Set(members.map(({ node }) => node)))
  }
  for (const start of within) {
    if (!visits.has(start)) enter(start)
    for (let visit = path.at(-1); visit; visit = path.at(-1)) {
      const { value: node, done } = visit.successors.next()
      if (done) leave(visit)
      else if (within.has(node)) {
        const seen = visits.get(node)
        if (!seen) enter(node)
        else if (seen.isOpen) visit.low = Math.min(visit.low, seen.index)
      }
    }
  }
  return components
}

/** @returns the shortest cycle through the first node; undefined: a node by itself that does not lead to itself */
function cycleWithin<T>(graph: Graph<T>, component: ReadonlySet<T>): T[] | undefined {
  const cameFrom = new Map<T, T>()
  const [start] = component
  const reached = new Set(component.size > 0 ? [start as T] : [])
  for (const node of reached) {
    for (const next of graph.get(node)?.keys() ?? []) {
      if (next === start) return pathTo(node, cameFrom)
      if (!component.has(next) || reached.has(next)) continue
      reached.add(next)
      cameFrom.set(next, node)
    }
  }
  return undefined
}

function pathTo<T>(end: T, cameFrom: ReadonlyMap<T, T>): T[] {
  const path = [end]
  for (let node = cameFrom.get(end); node !== undefined; node = cameFrom.get(node)) path.unshift(node)
  return path
}
