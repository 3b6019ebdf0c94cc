// Takes a lock with whatever a consumer got from `holdfast`, by whatever way.
const assert = require('node:assert/strict')

exports.takeALock = async ({ connect, getMultiLock, LockError, NotHeldError, WaitTimeoutError }) => {
  const client = await connect(process.env.REDIS_URL)
  const other = await connect(process.env.REDIS_URL)
  try {
    const name = `consumer:${process.pid}:${Math.random()}`
    const lock = client.getLock(name)
    const value = await lock.withLock(async (hold) => {
      hold.assertHeld()
      assert.equal(await other.getLock(name).tryLock(), null, 'another client is kept out')
      await assert.rejects(other.getLock(name).lock({ waitTimeMs: 20 }), (error) => {
        assert(error instanceof WaitTimeoutError && error instanceof LockError && !(error instanceof NotHeldError))
        assert.equal(error.name, 'WaitTimeoutError')
        return true
      })
      return await lock.withLock(async (inner) => inner.count) // the call chain re-enters
    })
    assert.equal(value, 2)
    const both = await getMultiLock(client.getLock(`${name}:a`), client.getLock(`${name}:b`)).lock()
    await both.unlock()
    assert.equal(await lock.isLocked(), false)
    await assertErrorReplyIsNoSilence(client, name)
  } finally {
    await client.close()
    await other.close()
  }
}

/** A minified ReplyError was once taken for a lost reply: 15 s, and an error that says nothing. */
async function assertErrorReplyIsNoSilence(client, name) {
  const semaphore = client.getSemaphore(`${name}:c`)
  await semaphore.trySetPermits(1)
  const startedAt = performance.now()
  await assert.rejects(client.getLock(`${name}:c`).lock(), /WRONGTYPE/)
  assert(performance.now() - startedAt < 2_000, 'an error reply is passed on at once')
  await semaphore.delete?.()
}

exports.holdThroughABlock = async ({ connect }, thread = true) => {
  const url = process.env.REDIS_URL
  // On Bun and Deno the clock of a thread starts with it.
  const { bun, deno } = process.versions
  while ((bun ?? deno) && process.uptime() < 3) await new Promise((resolve) => setTimeout(resolve, 100))
  const client = await connect({ url, lockWatchdogTimeoutMs: 2_000, watchdog: { thread } })
  const lock = client.getLock(`consumer:thread:${process.pid}`)
  try {
    const hold = await lock.lock()
    const until = performance.now() + 5_000
    while (performance.now() < until);
    hold.assertHeld()
    assert.equal(await lock.isLocked(), true, 'Redis has the lock')
    await hold.unlock()
  } finally {
    await client.close()
  }
}
