import type { BaseClientConfiguration, GlideClient, GlideClusterClient } from '@valkey/valkey-glide'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, type ClientOptions, connect } from '../../src/index.js'

/** @param configOf  for each connection anew: the password may change */
export async function openGlide(
  to: 'server' | 'cluster',
  configOf: () => BaseClientConfiguration,
  options: ClientOptions,
): Promise<{ client: Client; glide: GlideClient | GlideClusterClient }> {
  const { GlideClient, GlideClusterClient, Logger } = await import('@valkey/valkey-glide')
  Logger.setLoggerConfig('off')
  const open = async (): Promise<GlideClient | GlideClusterClient> =>
    to === 'cluster' ? await GlideClusterClient.createClient(configOf()) : await GlideClient.createClient(configOf())
  const glide = await open()
  return { glide, client: await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options }) }
}
