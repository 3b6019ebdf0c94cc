import assert from 'node:assert/strict'
import type { Case } from './case.js'
import type { SemaphoreFixture, Side } from './semaphores.js'
import { becomes } from './steps.js'

export type SemaphoreCase = Case<SemaphoreFixture>

/** Both sides of a semaphore that one of them creates. */
export async function sidesOf(fixture: SemaphoreFixture, permits: number, name = fixture.name) {
  const sides = [await fixture.java(name), fixture.node(name)] as const
  assert.equal(await sides[permits % 2 === 0 ? 0 : 1].trySetPermits(permits), true)
  return sides
}

/** Resolves when each side sees this number of permits. */
export async function sees(sides: readonly Side[], available: number): Promise<void> {
  for (const side of sides) await becomes(() => side.availablePermits(), available)
}

/** All permits have come back; the last side deletes the semaphore. */
export async function endsWith(permits: number, sides: readonly Side[]): Promise<void> {
  await sees(sides, permits)
  assert.equal(await sides.at(-1)?.delete(), true)
}
