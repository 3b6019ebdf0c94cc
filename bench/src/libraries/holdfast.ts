import { type Client, ConfigError, type ConnectOptions, connect } from '../../../dist/index.js'
import type { Locker, OpenOptions } from '../library.js'
import { redisOf } from './redis.js'

export async function open(options: OpenOptions): Promise<Locker> {
  const place = options.isCluster ? { client: redisOf(options) } : { url: options.url }
  return lockerOf(await connect({ ...place, ...leaseOf(options) }), options)
}

/** In a cluster, where a grant counts once a replica has it: here it counts at once, as with the other libraries. */
export async function openUnacknowledged(options: OpenOptions): Promise<Locker> {
  const client = redisOf(options)
  return lockerOf(await connect({ client, checkLockSyncedSlaves: false, ...leaseOf(options) }), options)
}

export async function openWithThread(options: OpenOptions): Promise<Locker> {
  const watchdog = { thread: true, ...(options.maxBlockMs !== undefined && { maxBlockMs: options.maxBlockMs }) }
  const withThread = { url: options.url, ...leaseOf(options), watchdog } as ConnectOptions
  try {
    return lockerOf(await connect(withThread), options)
  } catch (error) {
    throw error instanceof ConfigError
      ? new Error('not available: connect does not support this watchdog option')
      : error
  }
}

/** With the SDK of OpenTelemetry, whose numbers nobody collects: what recording them costs. */
export async function openWithMetrics(options: OpenOptions): Promise<Locker> {
  const { MeterProvider, MetricReader } = await import('@opentelemetry/sdk-metrics')
  class Reader extends MetricReader {
    protected override async onForceFlush(): Promise<void> {}
    protected override async onShutdown(): Promise<void> {}
  }
  const { openTelemetry } = await import('../../../dist/telemetry/opentelemetry.js')
  openTelemetry({ meterProvider: new MeterProvider({ readers: [new Reader()] }) })
  return await open(options)
}

/** The recommended form, in which the work has the signal of the hold. */
export async function openWithLock(options: OpenOptions): Promise<Locker> {
  const client = await connect({ url: options.url, ...leaseOf(options) })
  return {
    ...lockerOf(client, options),
    run: (name, section) =>
      client.getLock(name).withLock(async ({ signal }) => {
        await section()
        signal.throwIfAborted()
      }),
  }
}

/** The shortest way to the result of the work: nobody waits for the release. */
export async function openWithBackgroundRelease(options: OpenOptions): Promise<Locker> {
  const client = await connect({ url: options.url, ...leaseOf(options) })
  return {
    ...lockerOf(client, options),
    run: (name, section) => client.getLock(name).withLock({ release: 'background' }, async () => await section()),
  }
}

export async function openThroughNodeRedis(options: OpenOptions): Promise<Locker> {
  const { createClient } = await import('redis')
  const redis = createClient({ url: options.url })
  await redis.connect()
  return lockerOf(await connect({ client: redis, ...leaseOf(options) }), options)
}

function leaseOf({ leaseMs }: OpenOptions) {
  return { lockWatchdogTimeoutMs: leaseMs }
}

function lockerOf(client: Client, { kind, permits, leaseMs }: OpenOptions): Locker {
  if (kind === 'semaphore') {
    return {
      prepare: (name) => client.getSemaphore(name).trySetPermits(permits),
      async acquire(name) {
        const semaphore = client.getSemaphore(name)
        await semaphore.acquire()
        return () => semaphore.release()
      },
    }
  }
  if (kind === 'permit') {
    return {
      prepare: (name) => client.getPermitExpirableSemaphore(name).trySetPermits(permits),
      async acquire(name) {
        const permit = await client.getPermitExpirableSemaphore(name).acquire({ leaseTimeMs: leaseMs })
        return () => permit.unlock()
      },
    }
  }
  const lockOf = {
    lock: (name: string) => client.getLock(name),
    fair: (name: string) => client.getFairLock(name),
    read: (name: string) => client.getReadWriteLock(name).readLock(),
    write: (name: string) => client.getReadWriteLock(name).writeLock(),
    fenced: (name: string) => client.getFencedLock(name),
  }[kind]
  return {
    async acquire(name) {
      const hold = await lockOf(name).lock()
      return () => hold.unlock()
    },
  }
}
