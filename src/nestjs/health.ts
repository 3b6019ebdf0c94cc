// Health indicator.
import { Inject, Injectable } from '@nestjs/common'
import { ModuleRef } from '@nestjs/core'
import type { Client } from '../client.js'
import { ConfigError, messageOf } from '../errors.js'
import { monotonicNow } from '../util/real-time.js'
import { within } from '../util/timeout.js'
import { checkDuration, ownOptions } from '../util/validate.js'
import { getHoldfastToken } from './inject.js'

export interface HoldfastHealthOptions {
  /** How long to wait for Redis, ms; default 1 000. */
  timeoutMs?: number | undefined
  /** The lock that is inspected, which the Redis user must be allowed to read; default `lock:health`. It is not acquired. */
  lockName?: string | undefined
}

/** Keyed by the client's token, like the results of `@nestjs/terminus` health indicators. */
export type HoldfastHealthResult = Record<
  string,
  { status: 'up'; latencyMs: number } | { status: 'down'; message: string }
>

/** Whether Redis runs the scripts of locks: a health indicator for `@nestjs/terminus` 11, or without it. */
export class HoldfastHealth {
  readonly #moduleRef: ModuleRef

  constructor(moduleRef: ModuleRef) {
    this.#moduleRef = moduleRef
  }

  /**
   * Inspect a lock: one round trip, and nothing is written.
   * @param name  which client; absent: the client without a name
   * @returns `{ holdfast: { status: 'up', latencyMs } }` or `{ holdfast: { status: 'down', message } }`; for a named client
   *   the key is `holdfast:<name>`
   * @throws {ConfigError} there is no such client, or an option cannot work
   * @example `return await this.terminus.check([() => this.holdfast.check()])`
   */
  async check(name?: string, options: HoldfastHealthOptions = {}): Promise<HoldfastHealthResult> {
    const own = ownOptions(options, { timeoutMs: 1, lockName: 1 })
    const timeoutMs = checkDuration('timeoutMs', own.timeoutMs ?? 1_000, 1)
    const key = getHoldfastToken(name)
    const lock = this.#client(key).getLock(own.lockName ?? 'lock:health')
    const startedAt = monotonicNow()
    try {
      await within(timeoutMs, lock.isLocked())
      return { [key]: { status: 'up', latencyMs: Math.round(monotonicNow() - startedAt) } }
    } catch (error) {
      return { [key]: { status: 'down', message: messageOf(error) } }
    }
  }

  #client(token: string): Client {
    try {
      return this.#moduleRef.get<Client>(token, { strict: false })
    } catch (cause) {
      throw new ConfigError('name', token, 'a client registered with HoldfastModule', { cause })
    }
  }
}
Injectable()(HoldfastHealth)
Inject(ModuleRef)(HoldfastHealth, undefined, 0)
