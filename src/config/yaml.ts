// YAML, with limits.
import type { Document, Node } from 'yaml'
import { ConfigError, notImported } from '../errors.js'

/** Aliases may refer to each other: a small file could become a huge object. */
const MAX_NODES = 100_000
/** Configurations have four levels. An alias inside its own target never ends. */
const MAX_LEVELS = 50

type Yaml = typeof import('yaml')

/**
 * Parses a YAML file into maps and lists of text. A class tag, `!<org.redisson.config.ConstantDelay> {}`, becomes the
 * key `class`, as in the JSON files of Redisson. Whether a value is a number depends on its key: a password `0123` is
 * text.
 * @throws {ConfigError} it is not a single YAML document, or the package `yaml` is not installed
 */
export async function parseYaml(text: string, file = 'config'): Promise<unknown> {
  const yaml = await importYaml()
  const lines = new yaml.LineCounter()
  const fail = (code: string, at: number): never => {
    const { line, col } = lines.linePos(at)
    throw new ConfigError(file, undefined, `YAML: ${code} at line ${line}, column ${col}`)
  }
  const document = parse(yaml, text, lines, file)
  const [error] = document.errors
  if (error) fail(error.code, error.pos[0])
  return new Contents(yaml, file, fail).of(document.contents)
}

function parse({ parseDocument }: Yaml, text: string, lineCounter: InstanceType<Yaml['LineCounter']>, file: string) {
  try {
    return parseDocument(text, {
      lineCounter,
      prettyErrors: false,
      // When silent, it would ignore a second document.
      logLevel: 'error',
      schema: 'failsafe',
      // It compares each key with all others; `Contents` checks this instead.
      uniqueKeys: false,
    }) as Document
  } catch (error) {
    if (error instanceof RangeError) throw tooDeep(file) // versions before 2.9 have no limit
    throw error
  }
}

/**
 * Converts the nodes of a document into plain objects, in order: an alias refers to the last preceding anchor of its
 * name.
 */
class Contents {
  readonly #yaml: Yaml
  readonly #file: string
  readonly #fail: (code: string, at: number) => never
  readonly #anchors = new Map<string, unknown>()
  /** The target of each alias. It remains the same where another alias repeats the node that contains it. */
  readonly #targets = new Map<unknown, unknown>()
  readonly #seen = new Set<unknown>()
  #nodes = 0

  constructor(yaml: Yaml, file: string, fail: (code: string, at: number) => never) {
    this.#yaml = yaml
    this.#file = file
    this.#fail = fail
  }

  of(node: unknown, level = 0): unknown {
    const { isAlias, isMap, isScalar, isSeq } = this.#yaml
    if (++this.#nodes > MAX_NODES) throw new ConfigError(this.#file, undefined, `YAML of at most ${MAX_NODES} values`)
    if (level > MAX_LEVELS) throw tooDeep(this.#file)
    if (isAlias(node)) return this.of(this.#targetOf(node, node.source, node.range?.[0]), level + 1)
    if (isMap(node) || isSeq(node) || isScalar(node)) this.#remember(node, node.anchor)
    if (isMap(node)) return { ...classOf(node), ...this.#entriesOf(node.items, level + 1) }
    if (isSeq(node)) return node.items.map((item) => this.of(item, level + 1))
    if (!isScalar(node)) return null
    const { class: tag } = classOf(node)
    if (tag !== undefined) return { class: tag }
    const isPlain = node.type === undefined || node.type === 'PLAIN'
    return isPlain && /^(|~|null|Null|NULL)$/.test(String(node.value ?? '')) ? null : node.value
  }

  #entriesOf(pairs: readonly { key: unknown; value: unknown }[], level: number): Record<string, unknown> {
    const entries = new Map<string, unknown>()
    const merged: unknown[] = []
    for (const { key, value } of pairs) {
      const name = String(this.of(key, level))
      const content = this.of(value, level)
      if (name === '<<') for (const map of [content].flat()) merged.push(map)
      else if (entries.has(name)) this.#fail('DUPLICATE_KEY', (key as Node).range?.[0] ?? 0)
      else entries.set(name, content)
    }
    // `<<: *common`: what a map has itself takes precedence, then what comes first.
    return Object.fromEntries([...merged.reverse().flatMap(entriesIn), ...entries])
  }

  #remember(node: unknown, anchor: string | undefined): void {
    if (anchor === undefined || this.#seen.has(node)) return
    this.#seen.add(node)
    this.#anchors.set(anchor, node)
  }

  #targetOf(alias: unknown, source: string, at = 0): unknown {
    const target = this.#targets.get(alias) ?? this.#anchors.get(source) ?? this.#fail('BAD_ALIAS', at)
    this.#targets.set(alias, target)
    return target
  }
}

function entriesIn(map: unknown): [string, unknown][] {
  return typeof map === 'object' && map !== null ? Object.entries(map) : []
}

function tooDeep(file: string): ConfigError {
  return new ConfigError(file, undefined, `YAML of at most ${MAX_LEVELS} levels, without an alias to itself`)
}

/** The tags `tag:yaml.org,2002:…` belong to YAML itself. */
function classOf({ tag }: Pick<Node, 'tag'>): { class?: string } {
  return tag === undefined || tag.startsWith('tag:yaml.org,2002:') ? {} : { class: tag.replace(/^!/, '') }
}

async function importYaml() {
  try {
    return await import('yaml')
  } catch (cause) {
    throw notImported('config', 'yaml', cause)
  }
}
