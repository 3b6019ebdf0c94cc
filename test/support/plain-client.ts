import { Redis, type RedisOptions } from 'ioredis'

export type PlainOptions = Pick<RedisOptions, 'commandTimeout' | 'connectionName' | 'protocol'>

/** A client that reports its failures instead of hiding them: no second sending, no reconnection. */
export async function plainClient(url: string, options: PlainOptions = {}): Promise<Redis> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: () => null,
    autoResendUnfulfilledCommands: false,
    commandTimeout: 2_000,
    ...options,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}
