import { GlideClient } from '@valkey/valkey-glide'
import * as holdfast from 'holdfast'
import { connect } from 'holdfast'
import { valkeyGlide } from 'holdfast/valkey-glide'
import { takeALock } from 'take-a-lock'

async function main(): Promise<void> {
  const { hostname, port } = new URL(process.env['REDIS_URL'] ?? '')
  const glide = await GlideClient.createClient({ addresses: [{ host: hostname, port: Number(port) }] })
  await takeALock({ ...holdfast, connect: async () => await connect({ client: glide }) })
  await takeALock({ ...holdfast, connect: async () => await connect({ client: valkeyGlide(glide) }) })
  glide.close()
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})
