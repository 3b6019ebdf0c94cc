import { spawnSync } from 'node:child_process'
import { isBefore } from '../../../src/doctor/server.js'

/** What every Valkey says it is compatible with. */
const VALKEY_IS_LIKE = [7, 2, 4]

const [, ENGINE = '', VERSION] =
  /^(\w+) server v=([\d.]+)/.exec(String(spawnSync('redis-server', ['--version']).stdout)) ?? []

/** The version of Redis that the `redis-server` in PATH is, or is compatible with; the newest if there is none. */
export const ENGINE_VERSION: readonly number[] = versionOf(ENGINE, VERSION)

/** Redis 7 brought sharded channels, `cluster-port`, a DEBUG that must be enabled, and SENTINEL DEBUG. */
export const IS_BEFORE_7 = isBefore(ENGINE_VERSION, 7)

/** From Valkey 9 on a cluster may have several databases. */
export const HAS_CLUSTER_DATABASES = ENGINE === 'Valkey' && Number.parseInt(VERSION ?? '', 10) >= 9

function versionOf(name: string, version: string | undefined): readonly number[] {
  if (version === undefined) return [Number.POSITIVE_INFINITY] // starting it will say what is wrong
  return name === 'Valkey' ? VALKEY_IS_LIKE : version.split('.').map(Number)
}
