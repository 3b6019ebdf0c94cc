import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { runHoldfast, spawnHoldfast } from './processes/holdfast-command.js'
import type { RedisServer } from './servers/redis-server.js'

export const SECRET = 'tr0ub4dor'

interface Report {
  ok: boolean
  checks: {
    id: string
    status: string
    message: string
    why: string
    fix: string | null
    details?: Record<string, string | null>
  }[]
}

/** Runs it to its end without `--json`. */
export async function doctor(args: string[], env: Record<string, string> = {}) {
  return await runHoldfast('', ['doctor', ...args], env)
}

/** Runs it to its end with `--json`. */
export async function report(args: string[], env: Record<string, string> = {}) {
  await using child = spawnHoldfast('', ['doctor', ...args, '--json'], env)
  child.endCommands()
  const report = (await child.nextMessage((message) => 'checks' in message, 60_000)) as unknown as Report
  const { code } = await child.exit
  const check = (id: string) => {
    const found = report.checks.find((one) => one.id === id)
    assert.ok(found, `no ${id} in ${report.checks.map((one) => one.id)}`)
    return found
  }
  const bad = report.checks.filter(({ status }) => status === 'warning' || status === 'problem')
  assert.equal(report.ok, !report.checks.some(({ status }) => status === 'problem'))
  for (const { id, why, fix, status } of report.checks) {
    assert.ok(why, `${id} has no reason`)
    if (status === 'warning' || status === 'problem') assert.ok(fix, `${id} has no fix`)
  }
  return { code, ...report, check, bad: bad.map(({ id }) => id), output: child.stdout + child.stderr }
}

export function withUser({ url }: RedisServer, user: string, password: string): string {
  return url.replace('//', `//${user}:${password}@`)
}

/** A folder for configuration files, as long as the tests of a suite run. @returns how to write one */
export function configFolder(): (name: string, text: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-doctor-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  }
}
