// Opens a browser without showing the token to other users.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Opens a URL with a token in the browser. Other users of the machine can see the command line of a process, so that has
 * only the path of a file that they cannot read.
 * @returns removes the file
 */
export function openBrowser(url: string, platform = process.platform): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-ui-'))
  const file = join(folder, 'open.html')
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${url}"><title>Holdfast</title>`, {
    mode: 0o600,
  })
  const [program, ...args] = programOf(platform)
  const child = spawn(program, [...args, pathToFileURL(file).href], { stdio: 'ignore', detached: true })
  // The URL is printed as well, so a machine without a browser is fine.
  child.on('error', () => {})
  child.unref()
  return () => rmSync(folder, { recursive: true, force: true })
}

function programOf(platform: NodeJS.Platform): [string, ...string[]] {
  if (platform === 'darwin') return ['open']
  return platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open']
}

/** Whether somebody sits in front of this machine. */
export function hasDesktop(env: NodeJS.ProcessEnv, platform = process.platform): boolean {
  if (env['SSH_CONNECTION']) return false
  return platform === 'darwin' || platform === 'win32' || Boolean(env['DISPLAY'] || env['WAYLAND_DISPLAY'])
}
