import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'

const cleanups = new Set<() => void>()
process.on('exit', () => {
  for (const cleanup of cleanups) cleanup()
})

/** Runs `cleanup` (synchronous) when this process exits; returns a function that cancels it. */
export function atProcessExit(cleanup: () => void): () => void {
  cleanups.add(cleanup)
  return () => cleanups.delete(cleanup)
}

/**
 * Ends `child` together with this process, also when this process is killed and runs no exit handler.
 * @param dir removed then too
 */
export function tieToThisProcess(child: ChildProcess, dir = ''): void {
  const callOff = atProcessExit(() => child.kill('SIGKILL'))
  // The guard reads a pipe that only we hold open: end of file means that we are gone, however we went.
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"; if [ -n "$2" ]; then rm -rf "$2"; fi'
  const guard = spawn('sh', ['-c', script, 'guard', String(child.pid), dir], { stdio: ['pipe', 'ignore', 'ignore'] })
  guard.on('error', () => {})
  guard.stdin.on('error', () => {})
  guard.unref()
  if (guard.stdin instanceof Socket) guard.stdin.unref()
  child.once('exit', () => {
    callOff()
    guard.kill('SIGKILL')
  })
}
