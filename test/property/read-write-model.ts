import { Model, type Nesting, type Possession, type Spell, type Take } from './model.js'

const READ = 0
const WRITE = 1

interface Hash {
  /** Who writes, and how often. */
  readonly writer: { readonly id: string; readonly count: number } | undefined
  /** Hold counts, those of dead readers included. */
  readonly readers: ReadonlyMap<string, number>
  readonly lease: number
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
    const reads = [...this.reads].flatMap(([reader, leases]) =>
      leases.flatMap((lease, index) => (lease > 0 ? [`${reader} ${index + 1}`] : [])),
    )
    return [...everything, ...reads]
  }

  protected acquire(possession: Possession, lease: number): boolean {
    const { id, owner, target } = possession
    const { hash } = this
    if (target === WRITE) {
      if (hash) return false
      this.hash = { writer: { id, count: 1 }, readers: new Map(), lease }
      return true
    }
    if (hash?.writer && this.possessions.get(hash.writer.id)?.owner !== owner) return false
    this.reads.set(id, [lease])
    this.hash = {
      writer: hash?.writer,
      readers: new Map(hash?.readers).set(id, 1),
      lease: Math.max(lease, hash?.lease ?? 0),
    }
    return true
  }

  protected setCount({ id, target }: Possession, lease: number, count: number): boolean {
    const { hash } = this
    if (!hash) return false
    const longest = Math.max(lease, hash.lease)
    if (target === WRITE) {
      if (hash.writer?.id !== id) return false
      this.hash = { ...hash, writer: { id, count }, lease: longest }
      return true
    }
    if (!this.#reads(id)) return false
    const before = this.reads.get(id) ?? []
    const leases = Array.from({ length: count }, (_, index) => Math.max(lease, before[index] ?? 0))
    this.reads.set(id, leases)
    this.hash = { ...hash, readers: new Map(hash.readers).set(id, count), lease: longest }
    return true
  }

  protected renew(possession: Possession, lease: number): boolean {
    const { hash } = this
    const { id, target } = possession
    const count = target === WRITE ? hash?.writer?.count : hash?.readers.get(id)
    return this.setCount(possession, lease, count ?? 0)
  }

  protected free({ id, target }: Possession): boolean {
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
    this.hash = longest > 0 ? { writer: undefined, readers, lease: longest } : undefined
  }

  countOf({ id, target }: Possession): number {
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

  protected expire(what: string): void {
    if (what === 'everything') this.reads.clear()
    if (what === 'everything' || what === 'hash') {
      this.hash = undefined
      return
    }
    const [reader = '', number] = what.split(' ')
    const leases = this.reads.get(reader) ?? []
    this.reads.set(
      reader,
      leases.map((lease, index) => (index + 1 === Number(number) ? 0 : lease)),
    )
  }

  protected holdersOf(target: number): { counts: ReadonlyMap<string, number>; lease: number } {
    const { hash } = this
    const counts = new Map<string, number>()
    if (target === WRITE && hash?.writer) counts.set(hash.writer.id, hash.writer.count)
    if (target === READ) for (const [id, count] of hash?.readers ?? []) if (this.#reads(id)) counts.set(id, count)
    return { counts, lease: counts.size > 0 ? (hash?.lease ?? 0) : 0 }
  }

  protected keys(spell: Spell): Record<string, string> {
    const keys: Record<string, string> = {}
    const { hash } = this
    if (hash) {
      const { writer, readers, lease } = hash
      const fields = [...readers].map(([id, count]) => `${spell(id)}=${count}`)
      if (writer) fields.push(`${spell(writer.id)}=${writer.count}`)
      keys['lock'] = `hash mode=${writer ? 'write' : 'read'} ${fields.sort().join(' ')}, ${lease} s`
    }
    for (const [id, leases] of this.reads) {
      for (const [index, lease] of leases.entries())
        if (lease > 0) keys[`read ${spell(id)} ${index + 1}`] = `${lease} s`
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

  protected lineOf({ target, position }: Take): string {
    return position.is === 'beside' ? `${target} beside ${position.possession}` : String(target)
  }

  /** Whether any of its holds is left. */
  #reads(id: string): boolean {
    const count = this.hash?.readers.get(id) ?? 0
    return (this.reads.get(id) ?? []).slice(0, count).some((lease) => lease > 0)
  }
}
