import { setTimeout as sleep } from 'node:timers/promises'
import { ClusterPlace } from './cluster-place.js'
import { Contender } from './contender-process.js'
import { FarPlace } from './far-place.js'
import type { Kind, Library, Server } from './library.js'
import type { Place, RedisPlace } from './redis-place.js'
import { jain, quantile, sum } from './statistics.js'
import type { Results, Work } from './work.js'

/** The figures of one measurement, by name. */
export type Figures = Record<string, number>

/** A cluster, or a server behind a link on which a round trip takes a millisecond more. */
export type Where = 'cluster' | 'far'

export interface Loop {
  /** Default: on one server, beside it. */
  readonly where?: Where
  readonly processes: number
  readonly tasks: number
  /** A lock for each task, instead of one for all. */
  readonly each?: boolean
  /** Length of the section, ms; 0: it is empty. */
  readonly sectionMs?: number
  /** Average rest of a task after each section, ms. */
  readonly restMs?: number
  readonly kind?: Kind
  readonly permits?: number
}

interface Setting {
  readonly where?: Where
  readonly processes?: number
  readonly kind?: Kind
  readonly permits?: number
  readonly leaseMs?: number
  readonly keep?: boolean
  readonly maxBlockMs?: number
}

const LEASE_MS = 30_000
const WARM_UP_MS = 400
const COUNTING_MS = 1_000

/** What workloads use to measure. */
export class Bench {
  readonly place: RedisPlace
  readonly ms: number
  #runs = 0
  #name = ''
  readonly #servers = new Map<NonNullable<Library['serve']>, Promise<Server>>()
  readonly #places = new Map<Where, Promise<Place>>()

  /** @param ms  how long one measurement takes */
  constructor(place: RedisPlace, ms: number) {
    this.place = place
    this.ms = ms
  }

  /** Starts contenders of one library on an empty Redis, and ends them when `fn` has ended. */
  async contend<W extends Work, T>(
    library: Library,
    work: W,
    setting: Setting,
    fn: (contenders: readonly Contender<W['do']>[]) => Promise<T>,
  ): Promise<T> {
    await (await this.#placeOf(setting)).empty()
    // A new name: not every server is emptied, and killed contenders may still hold the old one.
    this.#name = `bench-${++this.#runs}`
    return await this.alongside(library, work, setting, fn)
  }

  /** Starts more contenders next to the running ones. */
  async alongside<W extends Work, T>(
    library: Library,
    work: W,
    setting: Setting,
    fn: (contenders: readonly Contender<W['do']>[]) => Promise<T>,
  ): Promise<T> {
    const assignment = await this.#assignment(library, work, setting)
    const contenders = Array.from({ length: setting.processes ?? 1 }, () => new Contender<W['do']>(library, assignment))
    try {
      await Promise.all(contenders.map((contender) => contender.opened()))
      return await fn(contenders)
    } finally {
      for (const contender of contenders) contender.end()
    }
  }

  /** Rate, times and fairness of tasks that acquire a lock repeatedly. */
  async loop(library: Library, loop: Loop): Promise<Figures> {
    const { ms } = this
    const place = await this.#placeOf(loop)
    const [results, redisCpuMs] = await this.#looped(library, loop, async (contenders) => {
      const before = await place.cpuMs()
      return [await measured(contenders, ms), (await place.cpuMs()) - before] as const
    })
    const sections = results.flatMap((result) => result.sections)
    const latencies = results.flatMap((result) => result.latencies)
    const handOffs = results.flatMap((result) => result.handOffs)
    return {
      rate: sum(sections) / (ms / 1_000),
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      ...(handOffs.length > 0 && { handOffP50: quantile(handOffs, 0.5), handOffP99: quantile(handOffs, 0.99) }),
      ...(sections.length > 1 && { jain: jain(sections), starved: sections.filter((count) => count === 0).length }),
      cores: sum(results.map((result) => result.cpuMs)) / ms,
      redisCores: redisCpuMs / ms,
      refused: sum(results.map((result) => result.refused)),
      overlaps: sum(results.map((result) => result.overlaps)),
    }
  }

  async stop(): Promise<void> {
    for (const server of [...this.#servers.values(), ...this.#places.values()]) await (await server).stop()
    await this.place.stop()
  }

  /** Started on first use. */
  async #placeOf({ where }: Pick<Setting, 'where'>): Promise<Place> {
    if (where === undefined) return this.place
    const place = this.#places.get(where) ?? (where === 'far' ? FarPlace.start(this.place) : ClusterPlace.start())
    this.#places.set(where, place)
    return await place
  }

  /** The URL of Redis, or of the library's own server, which is started on first use. */
  async #urlOf({ serve }: Library, place: Place): Promise<string> {
    if (serve === undefined) return place.url
    const server = this.#servers.get(serve) ?? serve()
    this.#servers.set(serve, server)
    return (await server).url
  }

  /** A process whose tasks acquire a lock repeatedly, but rest until they are measured. It is up to the caller to end it. */
  async looping(library: Library, loop: Loop): Promise<Contender<'loop'>> {
    this.#name = `bench-${++this.#runs}`
    const contender = new Contender<'loop'>(library, await this.#assignment(library, loopOf(loop), loop))
    await contender.opened()
    return contender
  }

  async #assignment<W extends Work>(library: Library, work: W, setting: Setting) {
    const { kind = 'lock', permits = 1, leaseMs = LEASE_MS, keep = false, maxBlockMs } = setting
    const { name, tuned } = library
    const place = await this.#placeOf(setting)
    const url = await this.#urlOf(library, place)
    const { isCluster } = place
    return { library: name, name: this.#name, url, isCluster, work, kind, permits, leaseMs, keep, tuned, maxBlockMs }
  }

  /** Commands that clients send per section, counted in a separate short run. */
  async commandsPerSection(library: Library, loop: Loop): Promise<number> {
    if (library.serve !== undefined) return Number.NaN // it does not use Redis
    return await this.#looped(library, loop, async (contenders) => {
      const place = await this.#placeOf(loop)
      const [count, results] = await place.countCommands(() => measured(contenders, COUNTING_MS))
      return count / sum(results.flatMap((result) => result.sections))
    })
  }

  async #looped<T>(
    library: Library,
    loop: Loop,
    fn: (contenders: readonly Contender<'loop'>[]) => Promise<T>,
  ): Promise<T> {
    const { processes } = loop
    return await this.contend(library, loopOf(loop), loop, async (contenders) => {
      await Promise.all(contenders.map((contender) => contender.start()))
      // Many processes warm up on few cores.
      await sleep((library.warmUpMs ?? WARM_UP_MS) * Math.max(1, processes / 2))
      return await fn(contenders)
    })
  }
}

function loopOf({ tasks, each = false, sectionMs = 0, restMs = 0 }: Loop) {
  return { do: 'loop', tasks, each, sectionMs, restMs } as const
}

export function measured<W extends Work['do']>(contenders: readonly Contender<W>[], ms: number): Promise<Results[W][]> {
  return Promise.all(contenders.map((contender) => contender.measure(ms)))
}
