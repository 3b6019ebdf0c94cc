import { Inject, Injectable } from '@nestjs/common'
import { ModuleRef } from '@nestjs/core'
import type { Client } from '../client.js'
import { ConfigError, messageOf } from '../errors.js'
import { within } from '../util/timeout.js'
import { checkDuration, ownOptions } from '../util/validate.js'
import { getHoldfastToken } from './inject.js'

export interface HoldfastHealthOptions {
  /** How long Redis may take, ms; default 1 000. */
  timeoutMs?: number | undefined
  /** The lock that is asked about, for a user whose ACL limits the keys; default `holdfast:health`. It is not taken. */
  lockName?: string | undefined
}

/** By the client's token, as health indicators of `@nestjs/terminus` answer. */
export type HoldfastHealthResult = Record<
  string,
  { status: 'up'; latencyMs: number } | { status: 'down'; message: string }
>

/** Whether Redis answers what locks are made of: a health indicator for `@nestjs/terminus` 11, or without it. */
export class HoldfastHealth {
  readonly #moduleRef: ModuleRef

  constructor(moduleRef: ModuleRef) {
    this.#moduleRef = moduleRef
  }

  /**
   * Ask Redis about a lock that nobody needs: one round trip, and nothing is written.
   * @param name  which client; absent: the one without a name
   * @returns `{ holdfast: { status: 'up', latencyMs } }` or `{ holdfast: { status: 'down', message } }`; of a named client
   *   the key is `holdfast:<name>`
   * @throws {ConfigError} there is no such client, or an option cannot work
   */
  async check(name?: string, options: HoldfastHealthOptions = {}): Promise<HoldfastHealthResult> {
    const own = ownOptions(options, ['timeoutMs', 'lockName'])
    const timeoutMs = checkDuration('timeoutMs', own.timeoutMs ?? 1_000, 1)
    const key = getHoldfastToken(name)
    const lock = this.#client(key).getLock(own.lockName ?? 'holdfast:health')
    const startedAt = performance.now()
    try {
      await within(timeoutMs, lock.isLocked())
      return { [key]: { status: 'up', latencyMs: Math.round(performance.now() - startedAt) } }
    } catch (error) {
      return { [key]: { status: 'down', message: messageOf(error) } }
    }
  }

  #client(token: string): Client {
    try {
      return this.#moduleRef.get<Client>(token, { strict: false })
    } catch (cause) {
      throw new ConfigError('name', token, 'a client that HoldfastModule has', { cause })
    }
  }
}
Injectable()(HoldfastHealth)
Inject(ModuleRef)(HoldfastHealth, undefined, 0)
