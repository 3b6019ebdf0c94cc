/** Holdfast with the program's own node-redis client. */
import { connect } from 'holdfast'
import { createClient } from 'redis'

const { REDIS_URL: url = 'redis://127.0.0.1:6379' } = process.env

const redis = await createClient({ url }).connect()
const client = await connect({ client: redis })

await client.getLock('lock:example:report').withLock(async (hold) => {
  console.log(`held by ${hold.holder === `${client.id}:1` ? 'owner 1 of this client' : hold.holder}`)
  console.log(`in Redis it is a ${await redis.type('lock:example:report')}`)
})
console.log(`afterwards: ${await redis.type('lock:example:report')}`)

// Closes only the connections that Holdfast opened. The client is yours to close.
await client.close()
console.log(`your client is ${redis.isOpen ? 'open' : 'closed'}`)
await redis.close()

// Output:
// held by owner 1 of this client
// in Redis it is a hash
// afterwards: none
// your client is open
