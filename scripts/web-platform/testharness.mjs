// What files of web-platform-tests expect of their harness: those of its functions that tests of Web Locks use.
import { setTimeout } from 'node:timers'

const TEST_LIMIT_MS = 10_000

/** Tests run one after the other, in the order in which they were defined. */
export class Harness {
  #last = Promise.resolve()
  #report
  /** Whether the file expects promises to reject that nobody waits for. */
  allowsUncaught = false

  /** @param report  called with the name of each test, and its error; undefined: it passed */
  constructor(report) {
    this.#report = report
  }

  /** Resolves when every test has ended, including those that were defined meanwhile. */
  async finished() {
    for (let last; last !== this.#last; ) {
      last = this.#last
      await last
    }
  }

  /** The global functions. */
  get globals() {
    return {
      ...asserts,
      promise_test: (body, name) => this.#add(name, body),
      test: (body, name) => this.#add(name, async (t) => void body(t)),
      async_test: (body, name) => this.#add(name, (t) => t.untilDone(body)),
      setup: (...given) => this.#setUp(given),
      promise_setup: (body) => this.#add('promise_setup', body),
      done: () => {},
    }
  }

  /** @param given  a function, properties, or both */
  #setUp(given) {
    const properties = given.find((one) => typeof one === 'object')
    if (properties?.allow_uncaught_exception) this.allowsUncaught = true
    given.find((one) => typeof one === 'function')?.()
  }

  #add(name, body) {
    this.#last = this.#last.then(async () => this.#report(name, await failureOf(body, new Test(name))))
  }
}

/** The object that the function of a test gets. */
class Test {
  #cleanups = []
  #resolve
  #reject
  /** Rejects when a step fails. */
  failed = new Promise((_, reject) => (this.#reject = reject))

  constructor(name) {
    this.name = name
    this.failed.catch(() => {})
  }

  add_cleanup(cleanup) {
    this.#cleanups.push(cleanup)
  }

  step(body, ...args) {
    try {
      return body.apply(this, args)
    } catch (error) {
      this.#reject(error)
    }
  }

  step_func(body) {
    return (...args) => this.step(body, ...args)
  }

  step_func_done(body = () => {}) {
    return this.step_func((...args) => {
      body.apply(this, args)
      this.done()
    })
  }

  unreached_func(about = 'must not be called') {
    return this.step_func(() => asserts.assert_unreached(about))
  }

  step_timeout(body, ms, ...args) {
    return setTimeout(this.step_func(body), ms, ...args)
  }

  done() {
    this.#resolve?.()
  }

  untilDone(body) {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.step(body, this)
    })
  }

  async cleanUp() {
    for (const cleanup of this.#cleanups.splice(0).reverse()) await cleanup()
  }
}

/** @returns undefined: it passed */
async function failureOf(body, test) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${TEST_LIMIT_MS} ms`)), TEST_LIMIT_MS)
  })
  try {
    await Promise.race([(async () => await body.call(test, test))(), test.failed, late])
    return undefined
  } catch (error) {
    return error
  } finally {
    clearTimeout(timer)
    await test.cleanUp()
  }
}

function fail(message, about) {
  throw new Error(about === undefined ? message : `${about}: ${message}`)
}

const show = (value) => {
  try {
    return typeof value === 'string' ? JSON.stringify(value) : String(value)
  } catch {
    return typeof value
  }
}

const isOf = (error, name) => error instanceof DOMException && error.name === name

const classOf = (value) => Object.prototype.toString.call(value).slice('[object '.length, -1)

function expect(isSo, message, about) {
  if (!isSo) fail(message, about)
}

function throws(body, isExpected, wanted, about) {
  let thrown
  try {
    body()
  } catch (error) {
    thrown = { error }
  }
  expect(thrown, `did not throw ${wanted}`, about)
  expect(isExpected(thrown.error), `threw ${show(thrown.error)}, not ${wanted}`, about)
}

async function rejects(promise, isExpected, wanted, about) {
  const settled = await Promise.resolve(promise).then(
    () => undefined,
    (error) => ({ error }),
  )
  expect(settled, `did not reject with ${wanted}`, about)
  expect(isExpected(settled.error), `rejected with ${show(settled.error)}, not ${wanted}`, about)
}

/** Without the constructor of another realm, which some calls have before the promise or function. */
const withoutRealm = (args) =>
  args.length > 1 && typeof args[1] !== 'string' && args[1] !== undefined ? args.slice(1) : args

const asserts = {
  assert_true: (value, about) => expect(value === true, `${show(value)} is not true`, about),
  assert_false: (value, about) => expect(value === false, `${show(value)} is not false`, about),
  assert_equals: (value, wanted, about) =>
    expect(Object.is(value, wanted), `${show(value)} is not ${show(wanted)}`, about),
  assert_not_equals: (value, other, about) => expect(!Object.is(value, other), `is ${show(other)}`, about),
  assert_array_equals: (value, wanted, about) =>
    expect(
      value?.length === wanted.length && wanted.every((one, at) => Object.is(value[at], one)),
      `${show(value)} is not ${show(wanted)}`,
      about,
    ),
  assert_in_array: (value, all, about) => expect(all.includes(value), `${show(value)} is not in ${show(all)}`, about),
  assert_greater_than: (value, least, about) => expect(value > least, `${value} is not above ${least}`, about),
  assert_greater_than_equal: (value, least, about) => expect(value >= least, `${value} is below ${least}`, about),
  assert_less_than: (value, most, about) => expect(value < most, `${value} is not below ${most}`, about),
  assert_less_than_equal: (value, most, about) => expect(value <= most, `${value} is above ${most}`, about),
  assert_regexp_match: (value, wanted, about) => expect(wanted.test(value), `${show(value)} is not ${wanted}`, about),
  assert_class_string: (value, wanted, about) =>
    expect(classOf(value) === wanted, `${classOf(value)} is not ${wanted}`, about),
  assert_own_property: (value, key, about) => expect(Object.hasOwn(value, key), `has no ${String(key)}`, about),
  assert_idl_attribute: (value, key, about) =>
    expect(key in value && !Object.hasOwn(value, key), `has no attribute ${String(key)}`, about),
  assert_unreached: (about) => fail('was reached', about),
  assert_throws_js: (wanted, body, about) => throws(body, (error) => error?.constructor === wanted, wanted.name, about),
  assert_throws_dom(name, ...rest) {
    const [body, about] = withoutRealm(rest)
    throws(body, (error) => isOf(error, name), name, about)
  },
  assert_throws_exactly: (wanted, body, about) => throws(body, (error) => error === wanted, show(wanted), about),
  promise_rejects_js: (_, wanted, promise, about) =>
    rejects(promise, (error) => error?.constructor === wanted, wanted.name, about),
  promise_rejects_dom(_, name, ...rest) {
    const [promise, about] = withoutRealm(rest)
    return rejects(promise, (error) => isOf(error, name), name, about)
  },
  promise_rejects_exactly: (_, wanted, promise, about) =>
    rejects(promise, (error) => error === wanted, show(wanted), about),
}
