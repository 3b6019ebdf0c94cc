import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg, release, totalmem, type } from 'node:os'
import type { Library } from './library.js'

export function machine() {
  const [cpu] = cpus()
  return {
    cpu: cpu?.model.trim() ?? '?',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    /** The load of the machine before the run. */
    load: loadavg()[0] ?? 0,
  }
}

const require = createRequire(import.meta.url)

export function versions(libraries: readonly Library[], redis: string): Record<string, string> {
  const packages = new Set(libraries.flatMap((library) => library.package ?? []))
  return {
    node: process.version,
    'redis-server': redis,
    ioredis: versionOf('ioredis'),
    'node-redis': versionOf('redis'),
    ...Object.fromEntries(libraries.flatMap(({ name, version }) => (version === undefined ? [] : [[name, version]]))),
    ...Object.fromEntries([...packages].map((name) => [name, versionOf(name)])),
  }
}

/** Without `require`, because not every package exports its package.json. */
function versionOf(name: string): string {
  for (const folder of require.resolve.paths(name) ?? []) {
    try {
      return JSON.parse(readFileSync(`${folder}/${name}/package.json`, 'utf8')).version
    } catch {}
  }
  return '?'
}

/** CPU time of this process since `start`, ms. */
export function cpuSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}
