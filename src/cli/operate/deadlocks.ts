// `holdfast deadlocks`.
import type { Cycle, Deadlocks } from '../../fleet/deadlocks.js'
import { counted } from '../../util/counted.js'
import { durationOf } from '../../util/duration-text.js'
import { word } from '../../util/visible.js'
import { EXIT } from '../exit-codes.js'
import { clockTime } from '../local-time.js'
import type { Terminal } from '../terminal.js'
import { doubtLines, nameOf, STATUSES, unlockCommand } from './describe.js'
import { repeat } from './repeat.js'
import type { Session } from './view.js'

/** `holdfast deadlocks`: call chains that wait for each other. @returns the exit code: 0 none, 1 found, 2 not all could be seen */
export async function deadlocks(session: Session): Promise<number> {
  const { fleet, options, terminal, now } = session
  const { timeoutMs } = options
  const print = (found: Deadlocks): void =>
    options.json ? terminal.printJson(found) : terminal.print(...linesOf(found, terminal))
  if (!options.watch) {
    const found = await fleet.deadlocks({ timeoutMs })
    print(found)
    if (found.cycles.length > 0) return 1
    return found.doubts.length > 0 ? EXIT.inDoubt : 0
  }
  let shown: string | undefined
  await repeat(session, async () => {
    const found = await fleet.deadlocks({ timeoutMs })
    const members = JSON.stringify([membersOf(found), found.doubts])
    if (members === shown) return
    shown = members
    if (!options.json) terminal.print(clockTime(now()))
    print(found)
  })
  return 0
}

/** The identity of each deadlock, to recognize it in the next sample. */
function membersOf({ cycles, suspected }: Deadlocks): string[][] {
  return [...cycles, ...suspected].map(({ locks, owners }) =>
    locks.map((lock, index) => `${lock} ${owners[index]?.holder}`).sort(),
  )
}

function linesOf({ cycles, suspected, doubts }: Deadlocks, terminal: Terminal): string[] {
  const all = [
    ...cycles.flatMap((cycle) => cycleLines(cycle, terminal)),
    ...suspected.flatMap((cycle) => cycleLines(cycle, terminal, true)),
  ]
  const none = doubts.length > 0 ? 'no deadlock among what can be seen' : 'no deadlock'
  const advice = 'Take these locks in the same order everywhere, or together with getMultiLock.'
  return [...(all.length > 0 ? all : [none]), ...(cycles.length > 0 ? [advice] : []), ...doubtLines(doubts, terminal)]
}

/** @param isPossible  somebody seems to wait, and nobody says for what */
function cycleLines({ locks, owners, endsInMs }: Cycle, terminal: Terminal, isPossible = false): string[] {
  const end = endsInMs === null ? 'it does not end by itself' : `ends in ${durationOf(endsInMs)}, when a wait gives up`
  const [title, waits] = isPossible ? ['Possible deadlock', 'may wait for'] : ['Deadlock', 'waits for']
  return [
    terminal.paint('bold', `${title} of ${counted(locks.length, 'hold')}: ${isPossible ? 'if it is one, ' : ''}${end}`),
    ...owners.flatMap((owner, index) => {
      const lock = locks[index] ?? ''
      const next = locks[(index + 1) % locks.length] ?? ''
      const { sign, style } = STATUSES[owner.status]
      const held = owner.heldMs === undefined ? '' : ` for ${durationOf(owner.heldMs)}`
      const purpose = owner.label === undefined ? '' : ` (${word(owner.label)})`
      return [
        `  ${word(lock)} is held${held} by ${nameOf(owner)} ${terminal.paint(style, sign)}${purpose}, ${waits} ${word(next)}`,
        ...(owner.stack ? owner.stack.split('\n').map((line) => `      ${word(line.trim())}`) : []),
        `      ${unlockCommand(lock, owner)}`,
      ]
    }),
  ]
}
