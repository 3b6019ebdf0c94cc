import { type Child, spawnChild } from './child.js'

/** The program `holdfast` as the package has it, from the compiled tests in build/. */
export const MAIN = new URL('../../../../dist/cli/main.js', import.meta.url)

/** Starts `holdfast`. @param url  of Redis, for commands that are not given another one */
export function spawnHoldfast(url: string, args: readonly string[], env: Record<string, string> = {}): Child {
  return spawnChild(MAIN, [...args], { env: { REDIS_URL: url, HOLDFAST_CONFIG: '', ...env } })
}

/** Runs `holdfast` to its end, without input. */
export async function runHoldfast(...call: Parameters<typeof spawnHoldfast>) {
  return await endOf(spawnHoldfast(...call))
}

/** @returns what it printed, when it has ended: nobody types anything any more */
export async function endOf(child: Child) {
  child.endCommands()
  const { code } = await child.exit
  return { code, stdout: child.stdout, stderr: child.stderr }
}
