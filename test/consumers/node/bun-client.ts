// Bun's own client, without any other.
import assert from 'node:assert/strict'
import { RedisClient } from 'bun'
import { connect } from 'holdfast'
import { bun } from 'holdfast/bun'

const redis = new RedisClient(process.env['REDIS_URL'])
const client = await connect({ client: redis })
const other = await connect({ client: bun(redis) })
const name = `consumer:bun:${process.pid}`
const hold = await client.getLock(name).lock()
assert.equal(await other.getLock(name).tryLock(), null)
const waiting = other.getLock(name).lock({ waitTimeMs: 10_000 })
await hold.unlock()
await (await waiting).unlock()
await other.close()
await client.close()
redis.close()
