/** What the dashboard shows, by its API and on its page, against what the processes say. */
import type { LockDetail, LockRow, LocksReply } from '../../../src/dashboard/api.js'
import { idOf } from '../../../src/dashboard/rows.js'
import type { LockInfo } from '../../../src/index.js'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { type Compared, compare, type Look } from './compare.js'
import type { Dashboard } from './dashboard.js'
import type { Said } from './messages.js'
import { compareDetail, compareRow } from './shown.js'
import { PAUSE_MS } from './workers.js'

/** How long a page may take to show what is so, ms: a client may miss the 300 ms of a sample on a busy machine. */
const SHOWN_MS = 60_000
/** How long a sample takes at most on a busy machine, ms. */
const SAMPLE_MS = 2_000

/**
 * @param all   every lock
 * @param some  those that are looked at one by one
 */
export async function dashboardAgrees(
  dashboard: Dashboard,
  said: readonly Said[],
  all: readonly string[],
  some: readonly string[],
): Promise<Compared[]> {
  const compared = [...(await rowsAgree(dashboard, said, all)), ...(await listAgrees(dashboard, said, all))]
  for (const name of some)
    compared.push(await detailAgrees(dashboard, said, name), await oneAgrees(dashboard, said, name))
  return compared
}

/** Looks until nothing differs; what differs in the end does. */
async function untilSame(look: () => Promise<Compared[]>): Promise<Compared[]> {
  const endsAt = monotonicMs() + SHOWN_MS
  while (true) {
    const compared = await look()
    const isSame = compared.every(({ differences }) => differences.length === 0)
    if (isSame || monotonicMs() >= endsAt) return compared
    await sleep(PAUSE_MS)
  }
}

async function rowsAgree(dashboard: Dashboard, said: readonly Said[], all: readonly string[]): Promise<Compared[]> {
  return await untilSame(async () => {
    const rows = await dashboard.rows()
    const at = monotonicMs()
    const missing = missingOf(all, rows).map((name) => `${name}: it has no row`)
    return [of(missing), ...rows.map((row) => of(compareRow(row, said, at)))]
  })
}

async function listAgrees(dashboard: Dashboard, said: readonly Said[], all: readonly string[]): Promise<Compared[]> {
  return await untilSame(async () => {
    const looks = await list(dashboard)
    const infos = looks.map(({ info }) => info)
    const missing = missingOf(all, infos).map((name) => `${name}: api/locks lacks it`)
    return [of(missing), ...looks.map((look) => compare(look, said))]
  })
}

async function detailAgrees(dashboard: Dashboard, said: readonly Said[], name: string): Promise<Compared> {
  await dashboard.open(name)
  const compared = await untilSame(async () => {
    const detail = await dashboard.detail()
    return [of(detail ? compareDetail(detail, said, name, monotonicMs()) : [`${name}: no details are shown`])]
  })
  await dashboard.close()
  return compared[0] ?? of([])
}

async function oneAgrees(dashboard: Dashboard, said: readonly Said[], name: string): Promise<Compared> {
  const compared = await untilSame(async () => {
    const { reply, from, to } = await dashboard.get<LockDetail>(`locks/${idOf(name)}`)
    return [compare({ info: infoOf(reply.lock), from, to }, said)]
  })
  return compared[0] ?? of([])
}

async function list(dashboard: Dashboard): Promise<Look[]> {
  const looks: Look[] = []
  for (let cursor: string | null = '0'; cursor !== null; ) {
    const page: { reply: LocksReply; from: number; to: number } = await dashboard.get(`locks?cursor=${cursor}`)
    for (const row of page.reply.locks) {
      looks.push({ info: infoOf(row), from: page.from - row.ageMs - SAMPLE_MS, to: page.to - row.ageMs })
    }
    cursor = page.reply.cursor
  }
  return looks
}

function infoOf({ remainingLeaseMs, waiters, ...row }: LockRow): LockInfo {
  return {
    ...row,
    remainingLeaseMs: remainingLeaseMs ?? Number.POSITIVE_INFINITY,
    waiters: waiters.map((waiter) => ({
      ...waiter,
      chain: waiter.chain.map(({ lock, holder }) => ({ lock, holder })),
    })),
  }
}

function missingOf(all: readonly string[], shown: readonly { readonly name: string }[]): string[] {
  const names = new Set(shown.map(({ name }) => name))
  return all.filter((name) => !names.has(name))
}

function of(differences: readonly string[]): Compared {
  return { differences, offMs: [] }
}
