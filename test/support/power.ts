import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, readlinkSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { RedisServer } from './servers/redis-server.js'
import { waitUntil } from './wait-until.js'

const DISK = 'disk.img'

/**
 * Runs a server with its data on a disk of its own: an ext4 file system in a file, mounted for this process alone. That file
 * is the disk: what a process has written and not fsynced is in the memory of the kernel, and not in it.
 */
export const ON_ITS_OWN_DISK: readonly string[] = [
  ...['unshare', '--mount', '--propagation', 'private', 'sh', '-ec'],
  `if [ ! -e ${DISK} ]; then truncate -s 32M ${DISK}; mkfs.ext4 -q ${DISK}; fi
   mkdir -p disk
   mount -o loop,commit=60 ${DISK} disk
   exec "$@" --dir disk --logfile ../redis.log`,
  'sh',
]

/** Whether this machine can do that: it takes Linux, and root. */
export function hasDisks(): boolean {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-disk-'))
  try {
    const [program, ...words] = [...ON_ITS_OWN_DISK, 'true'] as unknown as [string, ...string[]]
    return spawnSync(program, words, { cwd: dir }).status === 0
  } finally {
    rmSync(dir, { recursive: true })
  }
}

/**
 * Cuts the power of a server on its own disk: it stops at once, before this function returns, and is gone when it resolves.
 * `server.restart()` then starts it with what had reached the disk.
 */
export async function cutPower(server: RedisServer): Promise<void> {
  const dir = dirname(readlinkSync(`/proc/${server.pid}/cwd`))
  server.freeze()
  await waitUntil(() => / T /.test(readFileSync(`/proc/${server.pid}/stat`, 'utf8')))
  copyFileSync(join(dir, DISK), join(dir, 'cut.img'))
  await server.kill() // which unmounts the disk, and so writes to it what is in memory
  renameSync(join(dir, 'cut.img'), join(dir, DISK))
}
