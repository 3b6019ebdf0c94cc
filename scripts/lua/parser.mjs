// Parses the subset of Lua 5.1 that the scripts use. Whatever is not in it is an error with file and line: nothing is
// guessed. A node is an object with `type` and `line`.
const TOKEN =
  /\s+|--\[\[[\s\S]*?\]\]|--[^\n]*|(?<name>[A-Za-z_]\w*)|(?<number>\d+(?:\.\d+)?(?![\w.]))|(?<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?<symbol>\.\.\.|\.\.|[=~<>]=|[-+*/%#<>=(){}[\];:,.])/y
const KEYWORDS = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
)
/** How tightly operators bind, left and right: `..` is the only one from right to left. */
const BINDING = new Map(
  Object.entries({
    or: [1, 1],
    and: [2, 2],
    ...Object.fromEntries(['<', '>', '<=', '>=', '~=', '=='].map((operator) => [operator, [3, 3]])),
    '..': [5, 4],
    '+': [6, 6],
    '-': [6, 6],
    '*': [7, 7],
    '/': [7, 7],
    '%': [7, 7],
  }),
)
const UNARY_BINDING = 8
const ESCAPES = { n: '\n', '\\': '\\', "'": "'", '"': '"' }

/**
 * @param text  of a script
 * @param file  for errors
 * @returns the statements
 */
export function parseLua(text, file) {
  return new Parser(tokensOf(text, file), file).chunk()
}

/** @returns never */
export function refuse(file, line, what) {
  throw new Error(`${file}:${line}: ${what}`)
}

function tokensOf(text, file) {
  const tokens = []
  let line = 1
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex
    const match = TOKEN.exec(text)
    if (!match) refuse(file, line, `cannot read ${JSON.stringify(text.slice(at, at + 10))}`)
    const { name, number, string, symbol } = match.groups
    if (name !== undefined) tokens.push({ kind: KEYWORDS.has(name) ? name : 'name', text: name, line })
    else if (number !== undefined) tokens.push({ kind: 'number', text: number, line })
    else if (string !== undefined) tokens.push({ kind: 'string', text: unquoted(string, file, line), line })
    else if (symbol !== undefined) tokens.push({ kind: symbol, text: symbol, line })
    line += match[0].split('\n').length - 1
  }
  tokens.push({ kind: 'end of file', text: '', line })
  return tokens
}

function unquoted(string, file, line) {
  if (/[^\x20-\x7e]/.test(string)) refuse(file, line, 'a string with other characters than ASCII')
  return string.slice(1, -1).replace(/\\(.)/g, (_, letter) => ESCAPES[letter] ?? refuse(file, line, `\\${letter}`))
}

class Parser {
  #tokens
  #file
  #at = 0

  constructor(tokens, file) {
    this.#tokens = tokens
    this.#file = file
  }

  chunk() {
    const body = this.#block()
    this.#expect('end of file')
    return body
  }

  get #next() {
    return this.#tokens[this.#at]
  }

  #take() {
    return this.#tokens[this.#at++]
  }

  #accept(kind) {
    return this.#next.kind === kind ? this.#take() : undefined
  }

  #expect(kind) {
    return this.#accept(kind) ?? refuse(this.#file, this.#next.line, `expected ${kind}, found "${this.#next.text}"`)
  }

  /** Up to a word that ends it. */
  #block() {
    const statements = []
    while (!['end', 'else', 'elseif', 'until', 'end of file'].includes(this.#next.kind)) {
      const statement = this.#statement()
      this.#accept(';')
      statements.push(statement)
      if (statement.type === 'return' || statement.type === 'break') break
    }
    return statements
  }

  #blockTo(end) {
    const body = this.#block()
    this.#expect(end)
    return body
  }

  #statement() {
    const { kind, line } = this.#next
    switch (kind) {
      case 'local':
        this.#take()
        return this.#accept('function') ? this.#localFunction(line) : this.#local(line)
      case 'if':
        this.#take()
        return this.#if(line)
      case 'while': {
        this.#take()
        const condition = this.#expression()
        this.#expect('do')
        return { type: 'while', line, condition, body: this.#blockTo('end') }
      }
      case 'for':
        this.#take()
        return this.#for(line)
      case 'return':
        this.#take()
        return { type: 'return', line, values: this.#isEndOfBlock() ? [] : this.#expressions() }
      case 'break':
        this.#take()
        return { type: 'break', line }
      default:
        return this.#assignmentOrCall(line)
    }
  }

  #isEndOfBlock() {
    return ['end', 'else', 'elseif', 'end of file', ';'].includes(this.#next.kind)
  }

  #localFunction(line) {
    const name = this.#expect('name').text
    return { type: 'local function', line, name, function: this.#function(line) }
  }

  #local(line) {
    const names = this.#names()
    return { type: 'local', line, names, values: this.#accept('=') ? this.#expressions() : [] }
  }

  #names() {
    const names = [this.#expect('name').text]
    while (this.#accept(',')) names.push(this.#expect('name').text)
    return names
  }

  #if(line) {
    const condition = this.#expression()
    this.#expect('then')
    const then = this.#block()
    const elseLine = this.#next.line
    if (this.#accept('elseif')) return { type: 'if', line, condition, then, else: [this.#if(elseLine)] }
    const otherwise = this.#accept('else') ? this.#block() : []
    this.#expect('end')
    return { type: 'if', line, condition, then, else: otherwise }
  }

  #for(line) {
    const names = this.#names()
    if (this.#accept('=')) {
      const [from, to, step, ...rest] = this.#expressions()
      if (names.length !== 1 || !to || rest.length > 0) refuse(this.#file, line, 'a for of numbers of another form')
      if (step && step.type !== 'number') refuse(this.#file, line, 'a step that is no positive number')
      this.#expect('do')
      return { type: 'for', line, name: names[0], from, to, step, body: this.#blockTo('end') }
    }
    this.#expect('in')
    const iterated = this.#expressions()
    if (iterated.length !== 1) refuse(this.#file, line, 'a for over several values')
    this.#expect('do')
    return { type: 'for in', line, names, iterated: iterated[0], body: this.#blockTo('end') }
  }

  #assignmentOrCall(line) {
    const first = this.#suffixed()
    if (first.type === 'call') return first
    const targets = [first]
    while (this.#accept(',')) targets.push(this.#suffixed())
    this.#expect('=')
    return { type: 'assign', line, targets, values: this.#expressions() }
  }

  #expressions() {
    const expressions = [this.#expression()]
    while (this.#accept(',')) expressions.push(this.#expression())
    return expressions
  }

  #expression(limit = 0) {
    const { line } = this.#next
    const unary = this.#accept('not') ?? this.#accept('-') ?? this.#accept('#')
    let left = unary
      ? { type: 'unary', line, operator: unary.kind, operand: this.#expression(UNARY_BINDING) }
      : this.#simple()
    for (;;) {
      const operator = this.#next.kind
      const [binds, rightLimit] = BINDING.get(operator) ?? [0, 0]
      if (binds <= limit) return left
      this.#take()
      left = { type: 'binary', line, operator, left, right: this.#expression(rightLimit) }
    }
  }

  #simple() {
    const { kind, text, line } = this.#next
    switch (kind) {
      case 'nil':
      case 'true':
      case 'false':
        this.#take()
        return { type: kind, line }
      case 'number':
        this.#take()
        return { type: 'number', line, value: Number(text) }
      case 'string':
        this.#take()
        return { type: 'string', line, value: text }
      case '...':
        this.#take()
        return { type: 'rest', line }
      case '{':
        return this.#table()
      case 'function':
        this.#take()
        return this.#function(line)
      default:
        return this.#suffixed()
    }
  }

  /** Only lists: no script needs another table constructor. */
  #table() {
    const { line } = this.#expect('{')
    const items = this.#next.kind === '}' ? [] : this.#expressions()
    this.#expect('}')
    return { type: 'table', line, items }
  }

  #function(line) {
    this.#expect('(')
    const parameters = []
    let hasRest = false
    while (this.#next.kind !== ')') {
      hasRest = this.#accept('...') !== undefined
      if (!hasRest) parameters.push(this.#expect('name').text)
      if (hasRest || !this.#accept(',')) break
    }
    this.#expect(')')
    return { type: 'function', line, parameters, hasRest, body: this.#blockTo('end') }
  }

  #suffixed() {
    const { line } = this.#next
    let expression
    if (this.#accept('(')) {
      expression = { type: 'parentheses', line, inner: this.#expression() }
      this.#expect(')')
    } else {
      expression = { type: 'name', line, name: this.#expect('name').text }
    }
    for (;;) {
      if (this.#accept('.')) {
        const index = { type: 'string', line, value: this.#expect('name').text }
        expression = { type: 'index', line, table: expression, index }
      } else if (this.#accept('[')) {
        expression = { type: 'index', line, table: expression, index: this.#expression() }
        this.#expect(']')
      } else if (this.#accept(':')) {
        const method = this.#expect('name').text
        expression = { type: 'method call', line, object: expression, method, args: this.#arguments() }
      } else if (this.#next.kind === '(') {
        expression = { type: 'call', line, called: expression, args: this.#arguments() }
      } else {
        return expression
      }
    }
  }

  #arguments() {
    this.#expect('(')
    const args = this.#next.kind === ')' ? [] : this.#expressions()
    this.#expect(')')
    return args
  }
}
