import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Server } from '../library.js'
import { freePort, Program } from '../program.js'
import { CLASS_PATH } from './java.js'

/** The server comes with Curator. The client is bench/java/…/CuratorLocker.java. */
export async function serve(): Promise<Server> {
  const port = await freePort()
  const program = await Program.start(port, 'java', (dir) => {
    const file = join(dir, 'zoo.cfg')
    const config = { dataDir: dir, clientPort: port, clientPortAddress: '127.0.0.1', maxClientCnxns: 0 }
    const more = { tickTime: 2_000, 'admin.enableServer': false }
    const lines = Object.entries({ ...config, ...more }).map((pair) => pair.join('='))
    writeFileSync(file, lines.join('\n'))
    return ['-Xmx512m', '-cp', CLASS_PATH, 'org.apache.zookeeper.server.ZooKeeperServerMain', file]
  })
  return { url: `127.0.0.1:${port}`, stop: () => program.stop() }
}
