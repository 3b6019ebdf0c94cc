import { visible } from './format.js'
import { focusTable, SEARCH_ID } from './keyboard.js'
import { activeId, search, shownRows, showTab, source, TABS, type Tab, tab } from './state.js'
import { theme, toggleTheme } from './theme.js'

const TITLES: Record<Tab, string> = { locks: 'Locks', clients: 'Clients', jobs: 'Jobs', graph: 'Graph', audit: 'Audit' }
const MAX_TITLE = 80

export function Header() {
  const other = theme.value === 'dark' ? 'light' : 'dark'
  return (
    <header class="top">
      <h1>
        <Logo />
        Holdfast
        {source.value && <span class="address">{visible(source.value.title, MAX_TITLE)}</span>}
      </h1>
      <Search />
      <Tabs />
      {source.value?.readOnly && <span class="badge">read-only</span>}
      <button
        type="button"
        class="icon-button"
        aria-label={`Switch to the ${other} theme`}
        title={`Switch to the ${other} theme`}
        onClick={toggleTheme}
      >
        {theme.value === 'dark' ? '☀' : '☾'}
      </button>
    </header>
  )
}

function Search() {
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' && event.key !== 'ArrowDown') return
    event.preventDefault()
    activeId.value = shownRows.value[0]?.lock.id
    focusTable()
  }
  const onInput = (event: Event): void => {
    search.value = (event.currentTarget as HTMLInputElement).value
    tab.value = 'locks'
  }
  return (
    <search>
      <input
        id={SEARCH_ID}
        type="search"
        aria-label="Search locks"
        aria-keyshortcuts="/"
        placeholder="Lock, host, holder or label"
        autocomplete="off"
        spellcheck={false}
        value={search.value}
        onInput={onInput}
        onKeyDown={onKeyDown}
      />
      <span class="key" aria-hidden="true">
        /
      </span>
    </search>
  )
}

function Tabs() {
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const next = TABS[(TABS.indexOf(tab.value) + step + TABS.length) % TABS.length] ?? 'locks'
    showTab(next)
    document.getElementById(`tab-${next}`)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label="Views" tabIndex={-1} onKeyDown={onKeyDown}>
      {TABS.map((one) => (
        <button
          key={one}
          id={`tab-${one}`}
          type="button"
          role="tab"
          aria-selected={tab.value === one}
          aria-controls="view"
          tabIndex={tab.value === one ? 0 : -1}
          onClick={() => showTab(one)}
        >
          {TITLES[one]}
        </button>
      ))}
    </div>
  )
}

function Logo() {
  return (
    <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true" class="logo">
      <path d="M10 15V10a6 6 0 0 1 12 0v5" fill="none" stroke="currentColor" stroke-width="3.5" />
      <rect x="5" y="14" width="22" height="15" rx="3" fill="currentColor" />
      <path d="M10 21.5h12" stroke="var(--surface)" stroke-width="3" stroke-dasharray="4.5 3" />
    </svg>
  )
}
