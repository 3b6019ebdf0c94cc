import { connect } from 'holdfast'

export async function main(): Promise<void> {
  const client = await connect('redis://127.0.0.1')
  client.on('lost', ({ hold, error }) => `${hold.lockName}: ${error.reason}`)
  client.once('warning', (warning) => warning.message)
  await client.getLock('a').withLock(async (hold) => hold.count)
}
