import assert from 'node:assert/strict'
import { inWorkerd } from './runtime.mjs'

await inWorkerd(async ({ start }) => {
  const ask = start()
  assert.deepEqual(await ask('/kinds'), [
    'Lock',
    'FairLock',
    'NonReentrantLock',
    'FencedLock',
    'SpinLock',
    'StringLock',
    'write',
    'read',
    'multi-lock',
    'Semaphore',
    'PermitExpirableSemaphore',
    'exclusive',
  ])
  for (const refusal of await ask('/refusals'))
    assert.match(refusal, /^LOCK_CONFIG client: expected a client of @upstash/)
})
