import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { monotonicMs } from '../beliefs.js'
import type { Place } from '../place.js'

export const MAIN = fileURLToPath(new URL('../../../src/cli/main.js', import.meta.url))

export interface Printed<T> {
  readonly lines: readonly T[]
  readonly code: number
  /** When it began and ended, on the clock of the machine, ms. */
  readonly from: number
  readonly to: number
}

/** Where `holdfast` finds Redis. */
export function environmentOf({ url, file }: Place): { REDIS_URL: string; HOLDFAST_CONFIG: string } {
  return { REDIS_URL: url, HOLDFAST_CONFIG: file?.path ?? '' }
}

/** Runs `holdfast` with `--json`. @throws {Error} it did not work */
export async function holdfast<T>(place: Place, ...args: string[]): Promise<Printed<T>> {
  const env = { ...process.env, ...environmentOf(place) }
  const from = monotonicMs()
  return await new Promise((resolve, reject) => {
    execFile(process.execPath, [MAIN, ...args, '--json'], { env, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const to = monotonicMs()
      const code = error === null ? 0 : Number(error.code)
      const lines = stdout.split('\n').filter((line) => line !== '')
      // 1 also means found, or free.
      if ((code !== 0 && code !== 1) || lines.length === 0) {
        return reject(new Error(`holdfast ${args.join(' ')}: ${stderr}`))
      }
      resolve({ lines: lines.map((line) => JSON.parse(line) as T), code, from, to })
    })
  })
}
