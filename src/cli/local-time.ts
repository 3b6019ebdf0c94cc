// Times of day for people, by the local clock.

/** `03:12:44`, with the date if it was another day. */
export function timeOf(at: number, now: number): string {
  const [date, time] = localTime(at)
  return date === localTime(now)[0] ? time : `${date} ${time}`
}

/** `03:14:33.120` */
export function clockTime(at: number): string {
  return `${localTime(at)[1]}.${String(at % 1_000).padStart(3, '0')}`
}

function localTime(at: number): [date: string, time: string] {
  const when = new Date(at)
  const two = (part: number): string => String(part).padStart(2, '0')
  return [
    [when.getFullYear(), two(when.getMonth() + 1), two(when.getDate())].join('-'),
    [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(':'),
  ]
}
