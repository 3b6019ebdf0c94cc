import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { PGlite } from '@electric-sql/pglite'
import { ConfigError } from '../../src/errors.js'
import { FENCED_SET, type FencedUpdateOptions, fencedSet, fencedUpdate } from '../../src/fencing.js'

const MAX_TOKEN = 2n ** 63n - 1n
/** The first integer that a JavaScript number cannot distinguish from the next. */
const BIG = 2n ** 53n

const NO_TOKENS = [undefined, null, 0n, -1n, MAX_TOKEN + 1n, 1, '1', Number.NaN, {}]

function expectRefusal(call: () => unknown, path: string): void {
  assert.throws(call, (error) => error instanceof ConfigError && error.path === path)
}

describe('fencedUpdate', () => {
  it('fencedUpdate stores the token, and selects rows that have seen no higher one', () => {
    assert.deepEqual(fencedUpdate(42n), {
      set: 'fencing_token = ?',
      where: '(fencing_token IS NULL OR fencing_token <= ?)',
      token: '42',
    })
    assert.equal(fencedUpdate(MAX_TOKEN).token, '9223372036854775807')
  })

  for (const placeholder of ['?', '?2', '$2', '$12', ':token', '@token', '$token']) {
    it(`fencedUpdate takes the placeholder ${placeholder}`, () => {
      const { set, where } = fencedUpdate(1n, { placeholder })
      assert.equal(set, `fencing_token = ${placeholder}`)
      assert.equal(where, `(fencing_token IS NULL OR fencing_token <= ${placeholder})`)
    })
  }

  // The column of WHERE, and that of SET, which takes no table.
  const columns = {
    seen: 'seen',
    _seen2: '_seen2',
    'stock.seen': 'seen',
    'shop.stock.seen': 'seen',
    '"fencingToken"': '"fencingToken"',
    's."fencingToken"': '"fencingToken"',
    '"shop"."stock"."fencingToken"': '"fencingToken"',
    '`seen`': '`seen`',
    '`shop`.`seen`': '`seen`',
  }
  for (const [column, bare] of Object.entries(columns)) {
    it(`fencedUpdate takes the column ${column}`, () => {
      const { set, where } = fencedUpdate(1n, { column })
      assert.equal(set, `${bare} = ?`)
      assert.equal(where, `(${column} IS NULL OR ${column} <= ?)`)
    })
  }

  const noColumns = [
    '',
    '1',
    '2seen',
    'seen token',
    'seen;',
    'seen--',
    'seen = 0 OR seen',
    "seen'",
    '"seen',
    '"se"en"',
    '"seen` OR "1"',
    'stock.',
    '.seen',
    'stock..seen',
    'seen\n',
    'seen\0',
    'größe',
    null,
    5,
    ['seen'],
  ]
  for (const column of noColumns) {
    it(`fencedUpdate refuses the column ${JSON.stringify(column)}`, () => {
      expectRefusal(() => fencedUpdate(1n, { column } as FencedUpdateOptions), 'column')
    })
  }

  for (const placeholder of ['', '$', ':', '1', '? OR 1 = 1', '$2)', '??', "'1'", '$2\n', null, 2]) {
    it(`fencedUpdate refuses the placeholder ${JSON.stringify(placeholder)}`, () => {
      expectRefusal(() => fencedUpdate(1n, { placeholder } as FencedUpdateOptions), 'placeholder')
    })
  }

  it('fencedUpdate refuses what is no fencing token, and options that nobody reads', () => {
    for (const token of NO_TOKENS) expectRefusal(() => fencedUpdate(token as bigint), 'token')
    expectRefusal(() => fencedUpdate(1n, { collumn: 'seen' } as FencedUpdateOptions), 'collumn')
    expectRefusal(() => fencedUpdate(1n, '$2' as FencedUpdateOptions), 'options')
  })
})

describe('fencedUpdate, on a Postgres', () => {
  let db: PGlite

  before(async () => {
    db = await PGlite.create()
    await db.exec('CREATE TABLE stock (id text PRIMARY KEY, pieces int NOT NULL, fencing_token bigint)')
  })

  after(async () => {
    await db.close()
  })

  async function write(id: string, pieces: number, writer: bigint): Promise<number | undefined> {
    const { set, where, token } = fencedUpdate(writer, { placeholder: '$2' })
    const { affectedRows } = await db.query(`UPDATE stock SET pieces = $3, ${set} WHERE id = $1 AND ${where}`, [
      id,
      token,
      pieces,
    ])
    return affectedRows
  }

  it('fencedUpdate on Postgres lets the highest token write again, and refuses lower ones with 0 rows', async () => {
    await db.query(`INSERT INTO stock VALUES ('book', 0, NULL), ('pen', 0, NULL)`)
    const tokens = [9n, 10n, 9n, 10n, BIG, BIG + 2n, BIG + 1n, BIG + 2n, 10n, MAX_TOKEN, MAX_TOKEN - 1n]
    const rows: unknown[] = []
    for (const [n, token] of tokens.entries()) rows.push(await write('book', n, token))
    assert.deepEqual(rows, [1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0])
    const { rows: stock } = await db.query('SELECT id, pieces, fencing_token::text AS token FROM stock ORDER BY id')
    assert.deepEqual(stock, [
      { id: 'book', pieces: 9, token: String(MAX_TOKEN) },
      { id: 'pen', pieces: 0, token: null },
    ])
  })

  it('fencedUpdate on Postgres refuses a lower token once a higher one was stored by a read', async () => {
    await db.query(`INSERT INTO stock VALUES ('lamp', 3, 5)`)
    const { set, where, token } = fencedUpdate(6n, { placeholder: '$1' })
    const { rows } = await db.query(`UPDATE stock SET ${set} WHERE id = 'lamp' AND ${where} RETURNING pieces`, [token])
    assert.deepEqual(rows, [{ pieces: 3 }])
    assert.equal(await write('lamp', 2, 5n), 0)
    assert.equal(await write('lamp', 2, 6n), 1)
  })

  it('fencedUpdate on Postgres guards an upsert, with the name of the table before the column', async () => {
    const { set, where, token } = fencedUpdate(7n, { column: 'stock.fencing_token', placeholder: '$1' })
    const upsert = `INSERT INTO stock (id, pieces, fencing_token) VALUES ('cup', 1, $1)
      ON CONFLICT (id) DO UPDATE SET pieces = stock.pieces + 1, ${set} WHERE ${where}`
    assert.equal((await db.query(upsert, [token])).affectedRows, 1)
    assert.equal((await db.query(upsert, [token])).affectedRows, 1)
    assert.equal((await db.query(upsert, ['6'])).affectedRows, 0)
  })
})

describe('fencedSet', () => {
  const options = { key: 'report', tokenKey: 'report:token', value: 'v' }

  it('fencedSet is EVAL with the script, the two keys, the token in decimal, and the value', () => {
    assert.deepEqual(fencedSet(BIG + 1n, options), [
      'EVAL',
      FENCED_SET,
      '2',
      'report',
      'report:token',
      '9007199254740993',
      'v',
    ])
  })

  it('fencedSet refuses what is no fencing token', () => {
    for (const token of NO_TOKENS) expectRefusal(() => fencedSet(token as bigint, options), 'token')
  })

  it('fencedSet refuses one key for both, what is no text, and options that nobody reads', () => {
    expectRefusal(() => fencedSet(1n, { ...options, tokenKey: 'report' }), 'tokenKey')
    for (const path of Object.keys(options)) {
      expectRefusal(() => fencedSet(1n, { ...options, [path]: 5 }), path)
      expectRefusal(() => fencedSet(1n, { ...options, [path]: undefined } as never), path)
    }
    expectRefusal(() => fencedSet(1n, { ...options, px: 5 } as typeof options), 'px')
    expectRefusal(() => fencedSet(1n, undefined as never), 'options')
  })
})
