// HoldfastModule.
import {
  type BeforeApplicationShutdown,
  type DynamicModule,
  type FactoryProvider,
  Logger,
  Module,
  type ModuleMetadata,
  type OnApplicationShutdown,
  type Provider,
  type Type,
} from '@nestjs/common'
import { Client } from '../client.js'
import { type ConnectOptions, connect } from '../connect.js'
import { ConfigError } from '../errors.js'
import { describeLongWait } from '../locks/reporting/long-wait.js'
import { MAX_TIMEOUT_MS } from '../util/clock.js'
import { clearTimeout, monotonicNow, setTimeout } from '../util/real-time.js'
import { checkDuration, ownOf } from '../util/validate.js'
import { HoldfastHealth } from './health.js'
import { getHoldfastToken } from './inject.js'

/** The options of `connect()`, and how to shut down. */
export type HoldfastOptions = ConnectOptions & {
  /**
   * How long running work may continue when the application shuts down, ms from the start of the shutdown; default 10 000.
   * Then holds abort and are released, and waiters are rejected.
   */
  drainMs?: number | undefined
}

interface Registration {
  /** For several clients: the name by which this one is injected. Default: the client without a name. */
  name?: string | undefined
  /** Whether every module sees it without importing this one; default true. */
  isGlobal?: boolean | undefined
}

export type HoldfastModuleOptions = HoldfastOptions & Registration

/** For `useClass` and `useExisting`. */
export interface HoldfastOptionsFactory {
  createHoldfastOptions(): string | HoldfastOptions | Promise<string | HoldfastOptions>
}

export type HoldfastAsyncOptions = Registration &
  Pick<ModuleMetadata, 'imports'> &
  (
    | {
        useFactory: (...dependencies: never[]) => string | HoldfastOptions | Promise<string | HoldfastOptions>
        inject?: FactoryProvider['inject']
      }
    | { useClass: Type<HoldfastOptionsFactory> }
    | { useExisting: Type<HoldfastOptionsFactory> | string | symbol }
  )

const DEFAULT_DRAIN_MS = 10_000

/** Each registration has its own providers for these tokens, which are not exported. */
const OPTIONS = Symbol('holdfast options')
const FACTORY = Symbol('holdfast options factory')
const OPENED = Symbol('holdfast opened client')

/**
 * Opens a client when the application starts, logs its events through Nest's `Logger`, and closes it when the application shuts down: with
 * `app.enableShutdownHooks()` on SIGTERM, otherwise only by `app.close()`.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class
export class HoldfastModule {
  /**
   * @param target  a URL, or the options of `connect()`; of several clients, all but one need a `name`
   * @example `imports: [HoldfastModule.forRoot('redis://127.0.0.1:6379')]`
   */
  static forRoot(target: string | HoldfastModuleOptions): DynamicModule {
    const { name, isGlobal, ...options } = ownOf<HoldfastModuleOptions>(
      typeof target === 'string' ? { url: target } : target,
    )
    // A function, because Nest 10 serializes values to tell modules apart.
    return register({ name, isGlobal }, [{ provide: OPTIONS, useFactory: () => options }])
  }

  /**
   * The same with options from other providers, except `name` and `isGlobal`, which are given here.
   * @example
   * HoldfastModule.forRootAsync({ inject: [Settings], useFactory: (settings: Settings) => settings.redisUrl })
   */
  static forRootAsync(options: HoldfastAsyncOptions): DynamicModule {
    const own = ownOf(options)
    return register(own, optionsFrom(own), own.imports)
  }
}
Module({})(HoldfastModule)

function optionsFrom(options: HoldfastAsyncOptions): Provider[] {
  if ('useFactory' in options) {
    return [{ provide: OPTIONS, useFactory: options.useFactory, inject: options.inject ?? [] }]
  }
  const useFactory = async (factory: HoldfastOptionsFactory) => await factory.createHoldfastOptions()
  if ('useExisting' in options) return [{ provide: OPTIONS, useFactory, inject: [options.useExisting] }]
  return [
    { provide: FACTORY, useClass: options.useClass },
    { provide: OPTIONS, useFactory, inject: [FACTORY] },
  ]
}

function register(
  { name, isGlobal = true }: Registration,
  options: Provider[],
  imports: ModuleMetadata['imports'] = [],
): DynamicModule {
  const token = getHoldfastToken(name)
  const providers: Provider[] = [
    ...options,
    { provide: OPENED, useFactory: (target: string | HoldfastOptions) => open(target, name), inject: [OPTIONS] },
    { provide: token, useFactory: ({ client }: OpenedClient) => client, inject: [OPENED] },
    HoldfastHealth,
  ]
  const exported = [token, HoldfastHealth]
  if (name === undefined) {
    providers.push({ provide: Client, useExisting: token })
    return { module: HoldfastModule, global: isGlobal, imports, providers, exports: [...exported, Client] }
  }
  return { module: HoldfastModule, global: isGlobal, imports, providers, exports: exported }
}

async function open(target: string | HoldfastOptions, name: string | undefined): Promise<OpenedClient> {
  const options: HoldfastOptions = typeof target === 'string' ? { url: target } : target
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('HoldfastModule', options, 'a URL, or the options of connect()')
  }
  const { drainMs = DEFAULT_DRAIN_MS, ...rest } = ownOf(options)
  checkDuration('drainMs', drainMs, 0)
  const client = await connect(rest)
  logEvents(client, new Logger(name === undefined ? 'Holdfast' : `Holdfast:${name}`))
  return new OpenedClient(client, drainMs)
}

/** Logs the events that no caller sees, or sees too late for the operator of the application. */
function logEvents(client: Client, logger: Logger): void {
  client.on('lost', ({ error }) => logger.error(error.message))
  client.on('warning', ({ message }) => logger.warn(message))
  client.on('longWait', (wait) => logger.warn(describeLongWait(wait)))
  client.on('longHold', ({ hold, heldMs }) => {
    const about = hold.label === undefined ? '' : ` (label ${JSON.stringify(hold.label)})`
    logger.warn(`${JSON.stringify(hold.lockName)}${about} has been held for ${heldMs / 1_000} s`)
  })
}

/**
 * Between the two hooks Nest stops HTTP and waits for running requests. Until then they continue as usual and may acquire
 * locks; the client is closed under them only when the drain ends, so that they end as well.
 */
class OpenedClient implements BeforeApplicationShutdown, OnApplicationShutdown {
  readonly client: Client
  readonly #drainMs: number
  #endsAt: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(client: Client, drainMs: number) {
    this.client = client
    this.#drainMs = drainMs
  }

  beforeApplicationShutdown(): void {
    this.#endsAt ??= monotonicNow() + this.#drainMs
    // The close that follows reports errors: it waits for the same shutdown.
    this.#timer ??= setTimeout(() => void this.client.close().catch(() => {}), Math.min(this.#drainMs, MAX_TIMEOUT_MS))
  }

  async onApplicationShutdown(): Promise<void> {
    clearTimeout(this.#timer)
    const endsAt = this.#endsAt ?? monotonicNow() + this.#drainMs
    await this.client.close({ drainMs: Math.max(Math.ceil(endsAt - monotonicNow()), 0) })
  }
}
