import {
  type BeforeApplicationShutdown,
  type DynamicModule,
  type FactoryProvider,
  Module,
  type ModuleMetadata,
  type OnApplicationShutdown,
  type Provider,
  type Type,
} from '@nestjs/common'
import { Client } from '../client.js'
import { type ConnectOptions, connect } from '../connect.js'
import { ConfigError } from '../errors.js'
import { checkDuration, ownOf } from '../util/validate.js'
import { HoldfastHealth } from './health.js'
import { getHoldfastToken } from './inject.js'

/** What `connect()` takes, and how to shut down. */
export type HoldfastOptions = ConnectOptions & {
  /**
   * How long what runs may go on when the application shuts down, ms from the start of that; default 10 000. Then holds
   * abort and are released, and waiters are sent away.
   */
  drainMs?: number | undefined
}

interface Registration {
  /** For more than one client: the name by which it is injected. Default: the client without a name. */
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
/** The longest timer of Node. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Each registration has its own: none of them is exported. */
const OPTIONS = Symbol('holdfast options')
const FACTORY = Symbol('holdfast options factory')
const OPENED = Symbol('holdfast opened client')

/**
 * Opens a client when the application starts, and closes it when it shuts down. `app.enableShutdownHooks()` makes Nest shut
 * down on SIGTERM; without it only `app.close()` does.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class
export class HoldfastModule {
  /** @param target  a URL or all that `connect()` takes; with `name` for each but one of several clients */
  static forRoot(target: string | HoldfastModuleOptions): DynamicModule {
    const { name, isGlobal, ...options } = ownOf<HoldfastModuleOptions>(
      typeof target === 'string' ? { url: target } : target,
    )
    // By a function: Nest 10 makes text of values, to tell modules apart.
    return register({ name, isGlobal }, [{ provide: OPTIONS, useFactory: () => options }])
  }

  /** The same, with options that come from other providers. `name` and `isGlobal` are given here. */
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
    { provide: OPENED, useFactory: open, inject: [OPTIONS] },
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

async function open(target: string | HoldfastOptions): Promise<OpenedClient> {
  const options: HoldfastOptions = typeof target === 'string' ? { url: target } : target
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('HoldfastModule', options, 'options: a URL or what connect() takes')
  }
  const { drainMs = DEFAULT_DRAIN_MS, ...rest } = ownOf(options)
  checkDuration('drainMs', drainMs, 0)
  return new OpenedClient(await connect(rest), drainMs)
}

/**
 * Nest stops HTTP between the two hooks, and waits for the requests that run. Until then they go on as ever, taking locks
 * included; only when the drain ends is the client closed under them, so that they end, too.
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
    this.#endsAt ??= performance.now() + this.#drainMs
    // What it could say is said by the close that follows: it has the same promise.
    this.#timer ??= setTimeout(() => void this.client.close().catch(() => {}), Math.min(this.#drainMs, MAX_TIMER_MS))
  }

  async onApplicationShutdown(): Promise<void> {
    clearTimeout(this.#timer)
    const endsAt = this.#endsAt ?? performance.now() + this.#drainMs
    await this.client.close({ drainMs: Math.max(Math.ceil(endsAt - performance.now()), 0) })
  }
}
