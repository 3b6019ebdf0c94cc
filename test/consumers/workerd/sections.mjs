// Sections that say when they begin and end, in a list in Redis.

const LOOPS = 2
const SECTIONS = 8
/** What the faults of a connection may make of a section. */
const EXPECTED = ['LOCK_OUTCOME_UNKNOWN', 'LOCK_LEASE_LOST']

/**
 * @param lock  undefined: without one
 * @param log  appends an entry
 * @returns how many sections there were
 */
export async function enterAndLeave(lock, log) {
  const section = async (hold) => {
    const id = crypto.randomUUID()
    await log(`enter ${id}`)
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 10))
    // A section that outlasted its lease, on a machine that stalled, proves nothing.
    await log(`${hold && hold.remainingMs() <= 0 ? 'expired' : 'leave'} ${id}`)
  }
  let done = 0
  const loop = async () => {
    for (let count = 0; count < SECTIONS; ) {
      try {
        await (lock ? lock.withLock(section) : section())
        count++
        done++
      } catch (error) {
        if (!EXPECTED.includes(error.code)) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: LOOPS }, loop))
  return done
}

/** How many sections began inside of another. */
export function overlapsIn(log) {
  const entries = log.map((entry) => entry.split(' '))
  const expired = new Set(entries.filter(([what]) => what === 'expired').map(([, id]) => id))
  const inside = new Set()
  let overlaps = 0
  for (const [what, id] of entries) {
    if (expired.has(id)) continue
    if (what === 'enter') {
      if (inside.size > 0) overlaps++
      inside.add(id)
    } else inside.delete(id)
  }
  return overlaps
}
