/** Numbers and foreign text as the page shows them. */
import { type Doubt, doubtText } from '../src/fleet/doubts.js'
import type { ClientInfo } from '../src/fleet/lock-info.js'
import { word } from '../src/util/visible.js'
import { isMarked } from '../src/wire/client-id.js'

export { counted as plural, grouped as formatCount } from '../src/util/counted.js'

/** Where names are cut, characters. */
const MAX_SHOWN = 160

/** Text that others wrote, as one line and as the commands print it: nobody can hide or turn around a part of a name. */
export function visible(text: string, most = Number.POSITIVE_INFINITY): string {
  // Cut before the replacement, which may make it longer: a name of 1 MB costs nothing.
  return word(text.length > most ? `${text.slice(0, most)}…` : text)
}

export function shownName(name: string): string {
  return visible(name, MAX_SHOWN)
}

/** 0.4s, 31s, 2m 5s, 2h 14m, 3d 4h */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`
  const whole = Math.floor(seconds)
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`
}

/** The same for what is often shorter: 84 ms. */
export function formatMs(ms: number): string {
  return ms > 0 && ms < 1000 ? `${Math.round(ms)} ms` : formatDuration(ms)
}

/** `orders@orders-7f9c`; of a stranger what tells it apart. */
export function whoIs(client: ClientInfo | undefined, holder: string | undefined): string {
  if (client) return visible(client.host === '' ? client.name : `${client.name}@${client.host}`, MAX_SHOWN)
  return holder === undefined ? 'unknown' : shortHolder(holder)
}

/** `Redisson 10488e73:41`: whose it is, the first eight characters of the UUID, and the whole of what follows. */
export function shortHolder(holder: string): string {
  const [, uuid, rest = ''] = /^([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(:.*)?$/s.exec(holder) ?? []
  if (uuid === undefined) return shownName(holder)
  return shownName(`${isMarked(uuid) ? 'Holdfast' : 'Redisson'} ${uuid.slice(0, 8)}${rest}`)
}

/** By this computer's clock. */
export function timeOfDay(date: Date): string {
  return date.toLocaleTimeString('en-GB')
}

/** What is in doubt. */
export function sentenceOf(doubt: Doubt): string {
  const text = doubtText(doubt, shownName)
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('…') ? '' : '.'}`
}
