// Generates src/testing/generated.ts: our scripts as JavaScript, for the in-memory Redis. Fails at any construct,
// library function, pattern or format that it does not know.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { LUA, luaFiles, readPart, readScript, writeGenerated } from './files.mjs'
import { parseLua, refuse } from './parser.mjs'

const OUTPUT = fileURLToPath(new URL('../../src/testing/generated.ts', import.meta.url))

/** Names that mean something else in JavaScript. */
const RESERVED = new Set(
  (
    'arguments await case catch class const continue debugger default delete do enum eval export extends finally import ' +
    'instanceof interface let new null package private protected public static super switch this throw try typeof ' +
    'undefined var void with yield lua redis KEYS ARGV one rest T'
  ).split(' '),
)

/** Library functions with one result that take values as they are: their names in src/testing/lua.ts. */
const FUNCTIONS = {
  'math.abs': 'abs',
  'math.floor': 'floor',
  'math.max': 'max',
  'math.min': 'min',
  'redis.error_reply': 'errorReply',
  'string.byte': 'byte',
  'string.char': 'char',
  'string.sub': 'sub',
  'table.insert': 'insert',
  'table.remove': 'remove',
  error: 'error',
  tonumber: 'tonumber',
  type: 'type',
}
const NUMERIC = new Set(['math.abs', 'math.floor', 'math.max', 'math.min'])
/** Functions with several results. */
const MULTIPLE = { pcall: 'pcall', unpack: 'unpack' }
/** Functions of whose results only the first is translated. */
const TRUNCATED = new Set(['string.find', 'string.gsub'])
const COMPARISONS = { '<': 'lt', '<=': 'le', '>': 'gt', '>=': 'ge' }
/** An item that means the same in a Lua pattern and in a regular expression, or `%` and a letter. */
const PATTERN_ITEM = /%(.)|[\w .:*+?()]|^\^|\$$|([\s\S])/g
const CLASSES = { d: '\\d', x: '[0-9A-Fa-f]', '-': '-', '.': '\\.' }
const CALLS_REDIS = ['redis.call', 'redis.pcall']

/** Translates one text. */
class Translation {
  #file
  /** Names in sight, the innermost scope last: what they are in JavaScript. */
  #scopes = [new Map()]
  #names
  #keepsPublish

  /**
   * @param names  in JavaScript, of the functions that all scripts share
   * @param keepsPublish  `redis.pcall('publish', …)` is translated as it stands, and not as `redis.publish(…)`
   */
  constructor(file, { parameters = [], names = [], keepsPublish = false } = {}) {
    this.#file = file
    this.#names = new Set(names)
    this.#keepsPublish = keepsPublish
    for (const parameter of parameters) this.#scopes[0].set(parameter, parameter)
  }

  /** The body of a JavaScript function for a whole script. */
  body(text) {
    return this.#body(parseLua(text, this.#file))
  }

  /** From now on these functions, which are declared elsewhere, are in sight. */
  see(functions) {
    for (const [name, unique] of functions) this.#scopes[0].set(name, unique)
  }

  /** Declares the functions of a part. @returns their code, and their names in JavaScript by those in Lua */
  functions(text) {
    const statements = parseLua(text, this.#file)
    const code = statements.map((statement) => this.#statement(statement)).join('\n')
    return { code, names: statements.map(({ name }) => [name, this.#lookUp(name)]) }
  }

  #refuse({ line }, what) {
    return refuse(this.#file, line, `the translator does not know ${what}`)
  }

  /** Translates the body of a function, which returns an array. `T` is for `and` and `or`. */
  #body(statements) {
    const end = statements.at(-1)?.type === 'return' ? '' : '\nreturn []'
    const block = this.#block(statements)
    return `${block.includes('T = ') ? 'let T: any\n' : ''}${block}${end}`
  }

  #block(statements) {
    this.#scopes.push(new Map())
    const lines = statements.map((statement) => this.#statement(statement))
    this.#scopes.pop()
    return lines.join('\n')
  }

  #declare(name) {
    const unique = this.#unique(name)
    this.#scopes.at(-1).set(name, unique)
    return unique
  }

  /** A name in JavaScript alone, which hides none of the script's. */
  #unique(name) {
    let unique = name
    for (let n = 2; this.#names.has(unique) || RESERVED.has(unique); n++) unique = `${name}$${n}`
    this.#names.add(unique)
    return unique
  }

  #lookUp(name) {
    return this.#scopes.findLast((scope) => scope.has(name))?.get(name)
  }

  #statement(node) {
    switch (node.type) {
      case 'local':
        return this.#local(node)
      case 'local function': {
        const name = this.#declare(node.name)
        return `const ${name} = ${this.#expression(node.function)}`
      }
      case 'assign': {
        if (node.targets.length !== 1 || node.values.length !== 1) this.#refuse(node, 'an assignment of several values')
        return this.#assign(node.targets[0], this.#expression(node.values[0]))
      }
      case 'call':
        return this.#call(node)
      case 'if': {
        const otherwise = node.else.length > 0 ? ` else {\n${this.#block(node.else)}\n}` : ''
        return `if (${this.#condition(node.condition)}) {\n${this.#block(node.then)}\n}${otherwise}`
      }
      case 'while':
        return `while (${this.#condition(node.condition)}) {\n${this.#block(node.body)}\n}`
      case 'for':
        return this.#for(node)
      case 'for in':
        return this.#forIn(node)
      case 'return':
        return `return ${this.#results(node.values)}`
      case 'break':
        return 'break'
      default:
        return this.#refuse(node, node.type)
    }
  }

  #local({ names, values }) {
    if (names.length === 1 && values.length <= 1) {
      const value = values.length === 1 ? this.#expression(values[0]) : 'undefined'
      return `let ${this.#declare(names[0])}: any = ${value}`
    }
    // The values are outside the scope of the names.
    const results = values.length > 0 ? this.#results(values) : '[]'
    return `let [${names.map((name) => this.#declare(name)).join(', ')}]: any[] = ${results}`
  }

  #assign(target, value) {
    if (target.type === 'index') {
      return `lua.set(${this.#expression(target.table)}, ${this.#expression(target.index)}, ${value})`
    }
    const name = target.type === 'name' ? this.#lookUp(target.name) : undefined
    return name === undefined ? this.#refuse(target, `a global variable "${target.name}"`) : `${name} = ${value}`
  }

  #for({ name, from, to, step, body }) {
    const [first, last, by] = [this.#number(from), this.#number(to), step ? step.value : 1]
    this.#scopes.push(new Map())
    const [count, limit] = [this.#unique('$at'), this.#unique('$limit')]
    const variable = name === '_' ? '' : `let ${this.#declare(name)}: any = ${count}\n`
    const code = this.#block(body)
    this.#scopes.pop()
    return `for (let ${count} = ${first}, ${limit} = ${last}; ${count} <= ${limit}; ${count} += ${by}) {\n${variable}${code}\n}`
  }

  #forIn({ line, names, iterated, body }) {
    const called = iterated.type === 'call' ? this.#libraryName(iterated.called) : undefined
    if (!['ipairs', 'string.gmatch'].includes(called))
      this.#refuse({ line }, 'a for over anything but ipairs, string.gmatch')
    const isMatch = called === 'string.gmatch'
    if (names.length !== (isMatch ? 1 : 2)) this.#refuse({ line }, 'another number of loop variables')
    const over = isMatch
      ? `lua.gmatch(${this.#expression(iterated.args[0])}, ${this.#pattern(iterated.args[1], 'g')})`
      : `lua.ipairs(${this.#expression(iterated.args[0])})`
    this.#scopes.push(new Map())
    const variables = names.map((name) => (name === '_' ? '' : this.#declare(name)))
    const code = this.#block(body)
    this.#scopes.pop()
    return `for (let ${isMatch ? variables[0] : `[${variables.join(', ')}]`} of ${over}) {\n${code}\n}`
  }

  /** Expressions as a JavaScript array: the last one may have any number of results. */
  #results(nodes) {
    if (nodes.length === 1 && this.#isMultiple(nodes[0])) return this.#multiple(nodes[0])
    return `[${this.#list(nodes)}]`
  }

  #list(nodes) {
    const last = nodes.at(-1)
    return nodes
      .map((node) => (node === last && this.#isMultiple(node) ? `...${this.#multiple(node)}` : this.#expression(node)))
      .join(', ')
  }

  #isMultiple(node) {
    if (node.type === 'rest') return true
    if (node.type !== 'call') return false
    const name = this.#libraryName(node.called)
    if (TRUNCATED.has(name)) this.#refuse(node, `all results of ${name}: put it in parentheses`)
    return name === undefined || name in MULTIPLE || name === 'string.match'
  }

  #isTruncated(node) {
    return TRUNCATED.has(this.#libraryName(node.called))
  }

  #multiple(node) {
    return node.type === 'rest' ? 'rest' : this.#call(node)
  }

  /** One value. */
  #expression(node) {
    switch (node.type) {
      case 'nil':
        return 'undefined'
      case 'true':
      case 'false':
        return node.type
      case 'number':
        return String(node.value)
      case 'string':
        return JSON.stringify(node.value)
      case 'name':
        return this.#name(node)
      case 'index':
        return `lua.index(${this.#expression(node.table)}, ${this.#expression(node.index)})`
      case 'parentheses':
        return `(${this.#expression(node.inner)})`
      case 'table':
        return `lua.table([${this.#list(node.items)}])`
      case 'function':
        return this.#function(node)
      case 'call':
        return this.#isTruncated(node) || !this.#isMultiple(node) ? this.#call(node) : `${this.#call(node)}[0]`
      case 'method call':
        return this.#method(node)
      case 'unary':
        return this.#unary(node)
      case 'binary':
        return this.#binary(node)
      default:
        return this.#refuse(node, node.type)
    }
  }

  #name(node) {
    const known = this.#lookUp(node.name)
    if (known === undefined && (node.name === 'KEYS' || node.name === 'ARGV')) return node.name
    return known ?? this.#refuse(node, `a global "${node.name}"`)
  }

  #function({ parameters, hasRest, body }) {
    this.#scopes.push(new Map())
    const names = parameters.map((name) => `${this.#declare(name)}?: any`)
    if (hasRest) names.push('...rest: any[]')
    const code = this.#body(body)
    this.#scopes.pop()
    return `(${names.join(', ')}): any[] => {\n${code}\n}`
  }

  #method(node) {
    if (node.method !== 'sub') this.#refuse(node, `the method "${node.method}"`)
    return `lua.sub(${this.#list([node.object, ...node.args])})`
  }

  #unary(node) {
    if (node.operator === 'not') return `!${this.#truth(node.operand)}`
    if (node.operator === '#') return `lua.length(${this.#expression(node.operand)})`
    return `-${this.#number(node.operand)}`
  }

  #binary(node) {
    const { operator, left, right } = node
    switch (operator) {
      case 'and':
        return `(lua.truth(T = ${this.#expression(left)}) ? ${this.#expression(right)} : T)`
      case 'or':
        return `(lua.truth(T = ${this.#expression(left)}) ? T : ${this.#expression(right)})`
      case '==':
        return `(${this.#expression(left)} === ${this.#expression(right)})`
      case '~=':
        return `(${this.#expression(left)} !== ${this.#expression(right)})`
      case '..':
        return `lua.concat(${this.#expression(left)}, ${this.#expression(right)})`
      case '%':
        return `lua.modulo(${this.#number(left)}, ${this.#number(right)})`
      case '+':
      case '-':
      case '*':
      case '/':
        return `(${this.#number(left)} ${operator} ${this.#number(right)})`
      default:
        if (this.#isNumber(left) && this.#isNumber(right))
          return `(${this.#expression(left)} ${operator} ${this.#expression(right)})`
        return `lua.${COMPARISONS[operator]}(${this.#expression(left)}, ${this.#expression(right)})`
    }
  }

  /** A condition, which JavaScript may decide by itself where the value is a boolean. */
  #condition(node) {
    if (node.type === 'binary' && node.operator === 'and')
      return `(${this.#condition(node.left)} && ${this.#condition(node.right)})`
    if (node.type === 'binary' && node.operator === 'or')
      return `(${this.#condition(node.left)} || ${this.#condition(node.right)})`
    return this.#truth(node)
  }

  #truth(node) {
    const isBoolean =
      (node.type === 'binary' && (node.operator in COMPARISONS || ['==', '~='].includes(node.operator))) ||
      (node.type === 'unary' && node.operator === 'not')
    return isBoolean ? this.#expression(node) : `lua.truth(${this.#expression(node)})`
  }

  #isNumber(node) {
    if (node.type === 'number') return true
    if (node.type === 'parentheses') return this.#isNumber(node.inner)
    if (node.type === 'unary') return node.operator !== 'not'
    if (node.type === 'binary') return ['+', '-', '*', '/', '%'].includes(node.operator)
    return node.type === 'call' && NUMERIC.has(this.#libraryName(node.called))
  }

  /** As an operand of arithmetic: text that spells a number is one. */
  #number(node) {
    return this.#isNumber(node) ? this.#expression(node) : `lua.number(${this.#expression(node)})`
  }

  /** `math.max`, `tonumber`; undefined: a function of the script. */
  #libraryName(called) {
    if (called.type === 'name') return this.#lookUp(called.name) === undefined ? called.name : undefined
    const { table, index } = called
    const isLibrary = called.type === 'index' && table.type === 'name' && this.#lookUp(table.name) === undefined
    return isLibrary && index.type === 'string' ? `${table.name}.${index.value}` : this.#refuse(called, 'such a call')
  }

  #call(node) {
    const { called, args } = node
    const name = this.#libraryName(called)
    if (name === undefined) return `${this.#lookUp(called.name)}(${this.#list(args)})`
    if (CALLS_REDIS.includes(name)) return this.#redis(node, name)
    if (Object.hasOwn(FUNCTIONS, name)) return `lua.${FUNCTIONS[name]}(${this.#list(args)})`
    if (Object.hasOwn(MULTIPLE, name)) return `lua.${MULTIPLE[name]}(${this.#list(args)})`
    switch (name) {
      case 'string.format':
        return this.#format(node)
      case 'string.find':
        return this.#find(node)
      case 'string.match':
        return `lua.match(${this.#expression(args[0])}, ${this.#pattern(args[1])})`
      case 'string.gsub':
        return `lua.gsub(${this.#expression(args[0])}, ${this.#pattern(args[1], 'g')}, ${this.#expression(args[2])})`
      default:
        return this.#refuse(node, `the function "${name}"`)
    }
  }

  #redis(node, name) {
    const [command, ...args] = node.args
    if (command?.type !== 'string') this.#refuse(node, 'a command that is not named')
    if (name === 'redis.pcall' && command.value === 'publish' && !this.#keepsPublish) {
      return `redis.publish(${this.#list(args)})[0]`
    }
    return `${name}(${this.#list(node.args)})`
  }

  /** Where a text was found, or nil: only the first result. */
  #find(node) {
    const [text, pattern, from, isPlain] = node.args
    if (isPlain === undefined) return `lua.find(${this.#expression(text)}, ${this.#pattern(pattern)})`
    if (from.value !== 1 || isPlain.type !== 'true' || pattern.type !== 'string')
      this.#refuse(node, 'such a string.find')
    return `lua.findPlain(${this.#expression(text)}, ${JSON.stringify(pattern.value)})`
  }

  /** A format with one number in it. */
  #format(node) {
    const [format, value] = node.args
    const [, before, conversion, after] =
      (format?.type === 'string' && /^([^%]*)%(d|02x|\.\df)([^%]*)$/.exec(format.value)) ||
      this.#refuse(node, 'such a format')
    const number = `lua.number(${this.#expression(value)})`
    const text =
      conversion === '02x'
        ? `lua.hex(${number})`
        : conversion === 'd'
          ? `lua.integer(${number})`
          : `lua.fixed(${number}, ${conversion[1]})`
    const words = [before && JSON.stringify(before), text, after && JSON.stringify(after)]
    return words.filter((word) => word !== '').join(' + ')
  }

  /** A pattern of Lua as a regular expression: only what means the same in both. */
  #pattern(node, flags = '') {
    if (node?.type !== 'string') return this.#refuse(node, 'a pattern that is not written out')
    const source = node.value.replace(PATTERN_ITEM, (item, escaped, other) => {
      if (other !== undefined || (escaped !== undefined && !(escaped in CLASSES)))
        this.#refuse(node, `"${item}" in a pattern`)
      return CLASSES[escaped] ?? item
    })
    return `/${source}/${flags}s`
  }
}

const scripts = luaFiles().map(readScript)

/**
 * The parts that consist of functions, and use nothing but other such parts, are translated once: they are the functions of
 * all scripts that include them.
 */
const shared = new Map()
for (const { parts } of scripts) {
  for (const [name, { own, includes }] of parts) {
    const isShared = includes.every((part) => shared.has(part)) && /^local function/.test(own) && !isPerCall(own)
    if (isShared && !shared.has(name)) shared.set(name, share(name, own, includes))
  }
}

/** Whether a part has anything besides functions, or reads the keys and arguments of the script, and not only its own. */
function isPerCall(text) {
  const readsOwn = /\blocal KEYS\b/.test(text)
  return (
    (!readsOwn && /\b(KEYS|ARGV)\b/.test(text)) ||
    text.split('\n').some((line) => /^(?!local function|end$|\s|$)/.test(line))
  )
}

function share(part, text, includes) {
  const names = [...shared.values()].flatMap((other) => other.names.map(([, unique]) => unique))
  const translation = new Translation(`src/lua/${part}.part.lua`, { names })
  for (const other of includes) translation.see(shared.get(other).names)
  return translation.functions(text)
}

function translate({ name, parts, own }) {
  const names = [...shared.values()].flatMap((part) => part.names.map(([, unique]) => unique))
  const translation = new Translation(`src/lua/${name}.lua, with its parts,`, { names })
  const perCall = []
  for (const [part, { own: text }] of parts) {
    if (shared.has(part)) translation.see(shared.get(part).names)
    else perCall.push(text)
  }
  return `'${name}': (KEYS: Table, ARGV: Table): any[] => {\n${translation.body(perCall.join('') + own)}\n},`
}

/** The texts by which src/lua/variants.ts makes variants. */
function variant(constant) {
  const text = new RegExp(`const ${constant} = \`([^\`]*)\``).exec(readFileSync(`${LUA}variants.ts`, 'utf8'))?.[1]
  return text ?? refuse('src/lua/variants.ts', 1, `the text ${constant} is missing`)
}

const batch = new Translation('src/lua/variants.ts, FOR_MANY', { parameters: ['one'] }).body(variant('FOR_MANY'))
const publishing = new Translation('src/lua/variants.ts, PUBLISH_BOTH_WAYS', {
  keepsPublish: true,
  parameters: ['channel', 'message'],
}).body(`${variant('PUBLISH_BOTH_WAYS')}return publish(channel, message)`)

const late = new Translation('src/lua/variants.ts, DEADLINE', { parameters: ['one'] }).body(
  `${variant('DEADLINE')}return one(KEYS, ARGV)`,
)
const runOnce = new Translation('src/lua/idempotency/once.part.lua', { parameters: ['one'] })
runOnce.see(shared.get('idempotency/run-once').names)
const once = runOnce.body(`${readPart('idempotency/once').get('idempotency/once').own}return once(KEYS, ARGV, one)`)

const generated = indented(`// @ts-nocheck: generated by scripts/lua/translate.mjs from src/lua. Do not edit.
import * as lua from './lua.js'
import type { Redis, Table } from './lua.js'

/** A script. It returns the results of the chunk. */
export type Chunk = (KEYS: Table, ARGV: Table) => any[]

/** Each script by name, for one Redis, and its variants that run once or in time. */
export interface Translated {
  readonly scripts: Readonly<Record<string, Chunk>>
  once(one: Chunk): Chunk
  inTime(one: Chunk): Chunk
}

export function translated(redis: Redis): Translated {
${[...shared.values()].map(({ code }) => code).join('\n')}
return {
scripts: {
${scripts.map(translate).join('\n')}
},
once: (one) => (KEYS, ARGV) => {
${once}
},
inTime: (one) => (KEYS, ARGV) => {
${late}
},
}
}

/** The variant for batches. */
export function forMany(one: Chunk): Chunk {
return (KEYS, ARGV) => {
${batch}
}
}

/** The variant for clusters calls this instead of publishing. */
export function publishBothWays(redis: Redis, channel: any, message: any): any[] {
${publishing}
}
`)

writeGenerated(OUTPUT, generated)

function indented(code) {
  let depth = 0
  return code
    .split('\n')
    .map((line) => {
      const closes = /^[})]/.test(line.trim()) ? 1 : 0
      const indent = '  '.repeat(Math.max(0, depth - closes))
      depth += (line.match(/[{]/g)?.length ?? 0) - (line.match(/[}]/g)?.length ?? 0)
      return line.trim() === '' ? '' : indent + line.trim()
    })
    .join('\n')
}
