/**
 * The address says what is shown, so that a link to it can be sent to others; back, forward and a reload keep it:
 * `#/locks?lock=bG9jazph&q=orders&show=contended`.
 */
import { batch, effect } from '@preact/signals'
import { takeToken } from './api.js'
import { focusTable } from './keyboard.js'
import { activeId, openId, search, TABS, tab, trait } from './state.js'

const ID = /^[\w~-]+$/

/** Tab and lock of the present entry of the history. */
let place = ''

export function followAddress(): void {
  read()
  addEventListener('popstate', () => {
    // Who pastes the address with the token of another start keeps what is shown.
    if (!takeToken()) read()
    write()
  })
  effect(() => {
    hashOf() // so that this is called again
    queueMicrotask(write) // once, however many of these change together
  })
}

function read(): void {
  const [path = '', query] = location.hash.split('?')
  const wanted = new URLSearchParams(query)
  const lock = wanted.get('lock') ?? ''
  const show = wanted.get('show')
  const leavesLock = lock === '' && document.activeElement?.closest('.detail')
  batch(() => {
    tab.value = TABS.find((one) => path === `#/${one}`) ?? 'locks'
    search.value = wanted.get('q') ?? ''
    trait.value = show === 'contended' || show === 'trouble' ? show : 'all'
    openId.value = tab.value === 'locks' && ID.test(lock) ? lock : undefined
    activeId.value = openId.value ?? activeId.value
  })
  place = placeOf()
  if (leavesLock) focusTable()
}

/** Another tab or lock is a step that can be undone; a search is not, while it is typed. */
function write(): void {
  const hash = hashOf()
  const isStep = placeOf() !== place
  place = placeOf()
  if (hash === location.hash) return
  const url = location.pathname + location.search + hash
  if (isStep) history.pushState(null, '', url)
  else history.replaceState(null, '', url)
}

function hashOf(): string {
  const query = new URLSearchParams({
    ...(openId.value !== undefined && { lock: openId.value }),
    ...(search.value !== '' && { q: search.value }),
    ...(trait.value !== 'all' && { show: trait.value }),
  })
  if (query.size > 0) return `#/${tab.value}?${query}`
  return tab.value === 'locks' ? '' : `#/${tab.value}`
}

function placeOf(): string {
  return `${tab.value} ${openId.value}`
}
