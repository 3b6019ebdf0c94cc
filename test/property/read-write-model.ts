import { type Branch, Model } from './model.js'
import type { Lease, Nesting, Operation, Spell, Take } from './operations.js'

const READ = 0
const WRITE = 1

interface Hash {
  /** The writer, and its hold count. */
  readonly writer: { readonly id: string; readonly count: number } | undefined
  /** Hold counts, those of dead readers included. */
  readonly readers: ReadonlyMap<string, number>
  readonly leaseS: number
}

/** Many readers or one writer, which may also read. Each read hold has a separate key next to the hash. */
export class ReadWriteModel extends Model {
  readonly targets = ['read', 'write']
  hash: Hash | undefined
  /** The leases of a reader's holds, the first one first; 0: the key is gone. */
  reads = new Map<string, readonly number[]>()

  protected override blank(): this {
    return new ReadWriteModel(this.scopes.length) as this
  }

  get expirable(): readonly string[] {
    const everything = this.hash ? ['everything', 'hash'] : []
    const reads = [...this.reads].flatMap(([reader, times]) =>
      times.flatMap((leaseS, index) => (leaseS > 0 ? [`${reader} ${index + 1}`] : [])),
    )
    return [...everything, ...reads]
  }

  protected acquire(lease: Lease, leaseS: number): boolean {
    const { id, owner, target } = lease
    const { hash } = this
    if (target === WRITE) {
      // A writer waits for no reader that died.
      if (hash && (hash.writer || [...hash.readers.keys()].some((id) => this.#reads(id)))) return false
      this.hash = { writer: { id, count: 1 }, readers: new Map(), leaseS }
      return true
    }
    if (hash?.writer && this.leases.get(hash.writer.id)?.owner !== owner) return false
    this.reads.set(id, [leaseS])
    this.hash = {
      writer: hash?.writer,
      readers: new Map(hash?.readers).set(id, 1),
      leaseS: Math.max(leaseS, hash?.leaseS ?? 0),
    }
    return true
  }

  protected setCount({ id, target }: Lease, leaseS: number, count: number): boolean {
    const { hash } = this
    if (!hash) return false
    const longest = Math.max(leaseS, hash.leaseS)
    if (target === WRITE) {
      if (hash.writer?.id !== id) return false
      this.hash = { ...hash, writer: { id, count }, leaseS: longest }
      return true
    }
    if (!this.#reads(id)) return false
    const before = this.reads.get(id) ?? []
    const times = Array.from({ length: count }, (_, index) => Math.max(leaseS, before[index] ?? 0))
    this.reads.set(id, times)
    this.hash = { ...hash, readers: new Map(hash.readers).set(id, count), leaseS: longest }
    return true
  }

  protected renew(lease: Lease, leaseS: number): boolean {
    const { hash } = this
    const { id, target } = lease
    const count = target === WRITE ? hash?.writer?.count : hash?.readers.get(id)
    return this.setCount(lease, leaseS, count ?? 0)
  }

  protected free({ id, target }: Lease): boolean {
    const { hash } = this
    if (!hash) return false
    if (target === WRITE) {
      if (hash.writer?.id !== id) return false
      this.hash = { ...hash, writer: undefined }
      this.#settle()
      return true
    }
    if (!hash.readers.has(id)) return false
    const wasThere = this.#reads(id)
    this.reads.delete(id)
    const readers = new Map(hash.readers)
    readers.delete(id)
    this.hash = { ...hash, readers }
    if (!hash.writer) this.#settle()
    return wasThere
  }

  /** Nobody writes: the hash lasts as long as its longest read hold, and forgets the dead. */
  #settle(): void {
    const readers = new Map([...(this.hash?.readers ?? [])].filter(([id]) => this.#reads(id)))
    const longest = Math.max(0, ...[...readers.keys()].flatMap((id) => this.reads.get(id) ?? []))
    this.hash = longest > 0 ? { writer: undefined, readers, leaseS: longest } : undefined
  }

  countOf({ id, target }: Lease): number {
    if (target === WRITE) return this.hash?.writer?.id === id ? this.hash.writer.count : 0
    return this.#reads(id) ? (this.hash?.readers.get(id) ?? 0) : 0
  }

  protected force(target: number): boolean {
    const { hash } = this
    if (!hash || (hash.writer === undefined) !== (target === READ)) return false
    for (const id of hash.readers.keys()) this.reads.delete(id)
    this.hash = undefined
    return true
  }

  /** Also: a forced release frees the readers that it saw, each by name: not those who have come since, nor the dead. */
  override inPassing(operation: Operation, before: Model): readonly Branch[] {
    const branches = super.inPassing(operation, before)
    if (operation.do !== 'force' || operation.target !== READ || !this.hash || this.hash.writer) return branches
    const next = this.clone()
    next.#forget([...((before as ReadWriteModel).hash?.readers.keys() ?? [])])
    for (const id of operation.forced) if (this.#reads(id)) next.lose(id)
    return [...branches, [next, 'true']]
  }

  #forget(seen: readonly string[]): void {
    for (const id of seen) this.reads.delete(id)
    this.#settle()
  }

  protected expire(what: string): void {
    if (what === 'everything') this.reads.clear()
    if (what === 'everything' || what === 'hash') {
      this.hash = undefined
      return
    }
    const [reader = '', number] = what.split(' ')
    const times = this.reads.get(reader) ?? []
    this.reads.set(
      reader,
      times.map((leaseS, index) => (index + 1 === Number(number) ? 0 : leaseS)),
    )
  }

  protected holdersOf(target: number): { counts: ReadonlyMap<string, number>; leaseS: number } {
    const { hash } = this
    const counts = new Map<string, number>()
    if (target === WRITE && hash?.writer) counts.set(hash.writer.id, hash.writer.count)
    if (target === READ) for (const [id, count] of hash?.readers ?? []) if (this.#reads(id)) counts.set(id, count)
    return { counts, leaseS: counts.size > 0 ? (hash?.leaseS ?? 0) : 0 }
  }

  protected keys(spell: Spell): Record<string, string> {
    const keys: Record<string, string> = {}
    const { hash } = this
    if (hash) {
      const { writer, readers, leaseS } = hash
      // When those whose holds have all ended are forgotten is not part of the model.
      const living = [...readers].filter(([id]) => this.#reads(id))
      const fields = living.map(([id, count]) => `${spell(id)}=${count}`)
      if (writer) fields.push(`${spell(writer.id)}=${writer.count}`)
      keys['lock'] = `hash mode=${writer ? 'write' : 'read'} ${fields.sort().join(' ')}, ${leaseS} s`
    }
    for (const [id, times] of this.reads) {
      for (const [index, leaseS] of times.entries())
        if (leaseS > 0) keys[`read ${spell(id)} ${index + 1}`] = `${leaseS} s`
    }
    return keys
  }

  protected nesting(target: number, held: number): Nesting {
    if (target === held) return 'inside'
    return target === READ ? 'beside' : 'deadlock'
  }

  protected excludes(target: number, held: number): boolean {
    return target === WRITE || held === WRITE
  }

  protected waitQueueOf({ target, position }: Take): string {
    return position.is === 'beside' ? `${target} beside ${position.lease}` : String(target)
  }

  /** Whether any of its holds is left. */
  #reads(id: string): boolean {
    const count = this.hash?.readers.get(id) ?? 0
    return (this.reads.get(id) ?? []).slice(0, count).some((leaseS) => leaseS > 0)
  }
}
