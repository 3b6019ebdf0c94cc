import type { RedisServer } from '../../support/servers/redis-server.js'
import { sleep } from '../../support/wait-until.js'
import { cutOff } from './peers.js'
import { AFTERMATH_MS, CUT_MS, type Effects, type Fault, FROZEN_MS, SOON_MS, THAW_MS } from './topology.js'

/** A master that a replica replaces when it fails. */
export interface Target {
  readonly master: RedisServer
  kill(): Promise<unknown>
  freeze(): Promise<unknown>
  /** The first moment at which another one accepts a write. */
  successor(): Promise<number>
}

/**
 * @param who    in titles
 * @param doors  ports besides its own that lead to it
 */
export function faultsOfMaster(
  aim: () => Promise<Target>,
  who: 'a master' | 'the master',
  doors: readonly number[] = [],
): Fault[] {
  return [
    {
      id: 'kill',
      title: `${who} is killed and comes back`,
      limitMs: SOON_MS,
      async inject({ holdLong, restored }) {
        const target = await aim()
        holdLong()
        // No replica has its last grants.
        await cutOff(target.master)
        await sleep(CUT_MS)
        await target.kill()
        await comesBack(target, restored, () => target.master.restart())
      },
    },
    {
      id: 'down',
      title: `${who} is killed and stays down until all are served`,
      limitMs: SOON_MS,
      async inject({ restored }) {
        const { kill, successor } = await aim()
        await kill()
        await restored(await successor())
      },
    },
    {
      id: 'freeze',
      title: `${who} freezes, is replaced, and continues`,
      limitMs: FROZEN_MS,
      async inject({ restored }) {
        const target = await aim()
        await target.freeze()
        await comesBack(target, restored, () => target.master.thaw())
      },
    },
    {
      id: 'flap',
      title: 'the same; connections break and clients connect during the freeze',
      limitMs: FROZEN_MS,
      async inject({ restored, flap }) {
        const target = await aim()
        await target.freeze()
        flap([target.master.port, ...doors])
        await comesBack(target, restored, () => target.master.thaw())
      },
    },
    {
      id: 'frozen',
      title: `${who} freezes and stays frozen until all are served`,
      limitMs: FROZEN_MS,
      async inject({ restored }) {
        const { master, freeze, successor } = await aim()
        await freeze()
        await restored(await successor())
        master.thaw()
        await sleep(AFTERMATH_MS)
      },
    },
  ]
}

/** Once it is replaced; it still believes that it is the master. */
async function comesBack({ successor }: Target, restored: Effects['restored'], comeBack: () => unknown): Promise<void> {
  const served = restored(await successor())
  await sleep(THAW_MS)
  await comeBack()
  await sleep(AFTERMATH_MS)
  await served
}
