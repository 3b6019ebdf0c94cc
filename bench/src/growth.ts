import type { Bench, Figures, Loop } from './bench.js'
import type { Library } from './library.js'
import { watched } from './workloads/watched.js'

/** How cost grows with one number. */
export interface Growth {
  readonly id: string
  readonly title: string
  readonly axis: string
  readonly xs: readonly number[]
  /** The largest number for each library; beyond it would take too long, or only measure the machine. */
  readonly upTo: Readonly<Record<string, number>>
  readonly shows: readonly string[]
  measure(bench: Bench, library: Library, x: number): Promise<Figures>
}

export type Point = { readonly x: number } & Figures
/** The points of each library. */
export type Curves = Record<string, Point[]>

export const GROWTHS: readonly Growth[] = [
  {
    id: 'waiters',
    title: 'Waiters of one lock in one process, section of 1 ms',
    axis: 'tasks',
    xs: [1, 10, 100, 1_000, 10_000],
    upTo: { holdfast: 10_000, 'redis-semaphore': 10_000, 'redlock-5-tuned': 1_000, 'redisson-java': 1_000 },
    shows: ['rate', 'commandsPerSection', 'cpuPerSection'],
    measure: (bench, library, tasks) => cost(bench, library, { processes: 1, tasks, sectionMs: 1 }),
  },
  {
    id: 'processes',
    title: 'Processes with 4 tasks each, one lock, section of 1 ms, rests between',
    axis: 'processes',
    xs: [1, 2, 4, 8, 16, 32],
    upTo: { holdfast: 32, 'redis-semaphore': 32, 'redlock-5-tuned': 32, 'redisson-java': 8 },
    shows: ['rate', 'commandsPerSection', 'cpuPerSection'],
    measure: (bench, library, processes) => cost(bench, library, { processes, tasks: 4, sectionMs: 1, restMs: 10 }),
  },
  {
    id: 'held',
    title: 'Locks held and renewed by one process, lease 3 s',
    axis: 'locks',
    xs: [1, 10, 100, 1_000, 10_000, 100_000],
    upTo: { holdfast: 100_000, 'redis-semaphore': 100_000, 'redlock-5': 10_000, 'redisson-java': 10_000 },
    shows: ['scriptsPerSecond', 'cores', 'loopDelayMs'],
    measure: watched,
  },
]

async function cost(bench: Bench, library: Library, loop: Loop): Promise<Figures> {
  const { rate = Number.NaN, cores = Number.NaN, redisCores = Number.NaN } = await bench.loop(library, loop)
  const commandsPerSection = await bench.commandsPerSection(library, loop)
  return { rate, cores, redisCores, commandsPerSection, cpuPerSection: ((cores + redisCores) * 1_000) / rate }
}

export async function runGrowth(bench: Bench, growth: Growth, libraries: readonly Library[]): Promise<Curves> {
  const curves: Curves = {}
  for (const library of libraries) {
    const most = growth.upTo[library.name]
    if (most === undefined || library.missing !== undefined) continue
    const points: Point[] = []
    curves[library.name] = points
    for (const x of growth.xs.filter((x) => x <= most)) {
      console.error(`growth, ${growth.id}: ${library.name} with ${x} ${growth.axis}`)
      try {
        points.push({ x, ...(await growth.measure(bench, library, x)) })
      } catch (error) {
        console.error(`  ${error instanceof Error ? error.message : error}`)
        break // larger numbers would fail too
      }
    }
  }
  return curves
}
