/** The clients that describe themselves. Redisson does not: its holders are among the locks. */
import { signal } from '@preact/signals'
import type { ClientsReply } from '../src/dashboard/api.js'
import { explain, getClients } from './api.js'
import { formatCount, shownName } from './format.js'
import { type Column, Grid } from './grid.js'
import { usePolled } from './polled.js'
import { search, tab } from './state.js'
import { Status } from './status.js'

type Client = ClientsReply['clients'][number]

const POLL_MS = 2_000
const activeClient = signal<string | undefined>(undefined)

const COLUMNS: readonly Column<Client>[] = [
  { key: 'status', title: 'Status', line: 2, cell: ({ status }) => <Status status={status} /> },
  { key: 'name', title: 'Application', line: 1, cell: ({ name }) => <bdi>{shownName(name)}</bdi> },
  { key: 'version', title: 'Version', cell: ({ version }) => shownName(version) },
  { key: 'host', title: 'Host', line: 1, cell: ({ host }) => <bdi>{shownName(host)}</bdi> },
  { key: 'pid', title: 'Pid', cell: ({ pid }) => <span class="num">{pid}</span> },
  {
    key: 'holds',
    title: 'Holds',
    line: 2,
    caption: 'holds',
    cell: ({ holds }) => <span class="num">{formatCount(holds)}</span>,
  },
  {
    key: 'losses',
    title: 'Losses/h',
    line: 2,
    caption: 'losses/h',
    cell: ({ lossesLastHour: losses }) => <span class="num">{losses === undefined ? '?' : formatCount(losses)}</span>,
  },
  { key: 'id', title: 'Client id', cell: ({ id }) => <code>{shownName(id)}</code> },
]

export function Clients() {
  const { value, error } = usePolled(getClients, POLL_MS)
  const open = (id: string): void => {
    search.value = id
    tab.value = 'locks'
  }
  return (
    <section class="list" aria-label="Clients">
      <div class="choice">
        <output>{value ? `${formatCount(value.clients.length)} clients. Enter shows what one holds.` : ''}</output>
        {error && <span class="note">Not up to date: {explain(error)}</span>}
      </div>
      <Grid
        id="clients"
        label="Clients"
        columns={COLUMNS}
        rows={value?.clients ?? []}
        keyOf={({ id }) => id}
        toneOf={({ status }) => (status === 'responding' ? undefined : status)}
        active={activeClient.value}
        onActive={(id) => (activeClient.value = id)}
        onOpen={open}
        empty={value ? <p>No client describes itself.</p> : !error && <p>Asking the clients …</p>}
      />
    </section>
  )
}
