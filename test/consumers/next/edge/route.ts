import { connect } from 'holdfast'
import { http } from 'holdfast/http'

export const runtime = 'edge'

export async function POST() {
  const { FRONT_URL: url = '', FRONT_TOKEN: token = '' } = process.env
  const client = await connect({ client: http({ url, token }) })
  const other = await connect({ client: http({ url, token }) })
  try {
    const found = await client.getLock('lock:edge').withLock(async (hold) => {
      hold.assertHeld()
      const inner = await client.getLock('lock:edge').withLock(({ count }) => count)
      return [inner, await other.getLock('lock:edge').tryLock(), await client.locks.request('web', ({ mode }) => mode)]
    })
    return Response.json(found)
  } finally {
    await Promise.all([client.close(), other.close()])
  }
}
