/** The page of the dashboard: starts the stream, and shows one of five views of it. */
import 'uplot/dist/uPlot.min.css'
import './style/index.css'
import { effect } from '@preact/signals'
import { render } from 'preact'
import { followAddress } from './address.js'
import { isLockedOut } from './api.js'
import { Audit } from './audit.js'
import { Clients } from './clients.js'
import { stayConnected } from './connection.js'
import { Figures } from './figures.js'
import { plural } from './format.js'
import { GraphView } from './graph-view.js'
import { Header } from './header.js'
import { Jobs } from './jobs.js'
import { listenToKeys } from './keyboard.js'
import { Locks } from './locks.js'
import { Announcement, Banner, Doubts, TokenForm } from './notices.js'
import { tab, totals } from './state.js'

const VIEWS = { locks: Locks, clients: Clients, jobs: Jobs, graph: GraphView, audit: Audit }

function App() {
  const View = VIEWS[tab.value]
  if (isLockedOut.value) return <TokenForm />
  return (
    <>
      <Announcement />
      <Header />
      <Banner />
      <Doubts />
      <Figures />
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
          <View />
        </div>
      </main>
    </>
  )
}

effect(() => {
  const deadlocks = totals.value?.deadlocks ?? 0
  const alarm = deadlocks === 0 ? '' : `⚠ ${plural(deadlocks, 'deadlock')} · `
  document.title = `${alarm}Holdfast`
})
followAddress()
listenToKeys()
void stayConnected()
render(<App />, document.getElementById('app') as HTMLElement)
