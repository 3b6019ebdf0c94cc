import type { Node } from 'yaml'
import { ConfigError } from '../errors.js'

/** Aliases may name one another: a small file could become a huge object. */
const MOST_NODES = 100_000

/**
 * The contents of a YAML file: text in maps and lists. A class tag, `!<org.redisson.config.ConstantDelay> {}`, becomes the
 * key `class`, as in the JSON files of Redisson. What is a number is up to the key: a password `0123` is text.
 * @throws {ConfigError} it is not YAML, or the package `yaml` is not installed
 */
export async function parseYaml(text: string, file = 'config'): Promise<unknown> {
  const { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } = await importYaml()
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'silent',
    schema: 'failsafe',
  })
  const [error] = document.errors
  if (error) {
    const { line, col } = lines.linePos(error.pos[0])
    throw new ConfigError(file, undefined, `YAML: ${error.code} at line ${line}, column ${col}`)
  }
  let nodes = 0
  const plain = (node: unknown): unknown => {
    if (++nodes > MOST_NODES) throw new ConfigError(file, undefined, `YAML of at most ${MOST_NODES} values`)
    if (isAlias(node)) return plain(node.resolve(document))
    if (isMap(node)) {
      const entries = node.items.map(({ key, value }) => [String(plain(key)), plain(value)])
      return { ...classOf(node), ...Object.fromEntries(entries) }
    }
    if (isSeq(node)) return node.items.map(plain)
    if (!isScalar(node)) return null
    const { class: tag } = classOf(node)
    if (tag !== undefined) return { class: tag }
    const isPlain = node.type === undefined || node.type === 'PLAIN'
    return isPlain && /^(|~|null|Null|NULL)$/.test(String(node.value ?? '')) ? null : node.value
  }
  return plain(document.contents)
}

/** `tag:yaml.org,2002:map` and its like are of YAML itself. */
function classOf({ tag }: Pick<Node, 'tag'>): { class?: string } {
  return tag === undefined || tag.startsWith('tag:yaml.org,2002:') ? {} : { class: tag.replace(/^!/, '') }
}

async function importYaml() {
  try {
    return await import('yaml')
  } catch (cause) {
    throw new ConfigError('config', undefined, 'the package yaml to be installed (npm install yaml)', { cause })
  }
}
