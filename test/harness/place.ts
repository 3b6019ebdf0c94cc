import { join } from 'node:path'
import { Jvm, type Redisson } from '../interop/redisson.js'
import { listed, RedissonFile } from '../interop/redisson-file.js'

/** Where the locks of a harness are, for programs that read a URL or a file: `holdfast` and Redisson. */
export interface Place {
  /** Of the server, a node, or a Sentinel. */
  readonly url: string
  /** Undefined: the URL is enough. */
  readonly file: RedissonFile | undefined
}

const VERSION = '4.7.0'
const BUILT = join('.cache', 'interop')

/** @param own  more lines of the section, each indented by two */
export function placeOfCluster(urls: readonly string[], own = ''): Place {
  return {
    url: urls[0] ?? '',
    file: new RedissonFile('clusterServersConfig', `  nodeAddresses:\n${listed(urls)}\n${own}`),
  }
}

export function placeOfSentinels(urls: readonly string[], masterName: string, own = ''): Place {
  const sentinels = `  sentinelAddresses:\n${listed(urls)}\n  masterName: ${masterName}\n  checkSentinelsList: false\n`
  return { url: urls[0] ?? '', file: new RedissonFile('sentinelServersConfig', sentinels + own) }
}

/** The real Redisson, in a JVM of its own. */
export async function startRedisson({ url, file }: Place, watchdogMs: number): Promise<Redisson> {
  const jvm = await Jvm.start(BUILT, VERSION)
  return file ? await jvm.openFile(file.path) : await jvm.open(url, watchdogMs)
}
