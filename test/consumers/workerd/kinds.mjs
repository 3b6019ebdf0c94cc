import assert from 'node:assert/strict'
import { inWorkerd } from './runtime.mjs'

await inWorkerd(async ({ start }) => {
  const ask = start()
  assert.deepEqual(await ask('/kinds'), [
    'lock',
    'lock in order',
    'fair lock',
    'non-reentrant lock',
    'non-reentrant fair lock',
    'fenced lock',
    'spin lock',
    'string lock',
    'write lock',
    'write lock in order',
    'values of a group',
    'red lock',
    'read locks',
    'multi-lock',
    'Semaphore',
    'PermitExpirableSemaphore',
    'Semaphore',
    'PermitExpirableSemaphore',
    'exclusive',
    'leader',
  ])
  for (const refusal of await ask('/refusals'))
    assert.match(refusal, /^LOCK_CONFIG client: expected a client of @upstash/)
})
