/** Publishes on a port without Redis. Real clusters are in test/topologies/subscriptions.test.ts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { publish } from '../../src/delivery/publish.js'
import type { Scripts } from '../../src/delivery/scripts.js'

/** @param spublish  the reply to SPUBLISH */
function scriptsOf(isCluster: boolean, spublish: unknown, receivers = 2): { scripts: Scripts; sent: string[] } {
  const sent: string[] = []
  const command = async ([name]: string[], key: string): Promise<unknown> => {
    sent.push(`${name} at the node of ${key}`)
    if (name === 'PUBLISH') return receivers
    if (spublish instanceof Error) throw spublish
    return spublish
  }
  return { scripts: { isCluster, command } as unknown as Scripts, sent }
}

describe('publish', () => {
  it('publish sends one message on the sharded channel of a cluster', async () => {
    const { scripts, sent } = scriptsOf(true, 1)
    assert.equal(await publish(scripts, 'c', 'm'), 1)
    assert.deepEqual(sent, ['SPUBLISH at the node of c'])
  })

  it('publish sends on the plain channel of a cluster that has no sharded ones', async () => {
    const { scripts, sent } = scriptsOf(
      true,
      new Error("ERR unknown command 'SPUBLISH', with args beginning with: 'c'"),
    )
    assert.equal(await publish(scripts, 'c', 'm'), 2)
    assert.deepEqual(sent, ['SPUBLISH at the node of c', 'PUBLISH at the node of c'])
  })

  it('publish does not take the receivers of one node for those of all nodes', async () => {
    const { scripts } = scriptsOf(true, new Error("ERR unknown command 'SPUBLISH'"), 0)
    assert.equal(await publish(scripts, 'c', 'm'), undefined)
    assert.equal(await publish(scriptsOf(false, 1, 0).scripts, 'c', 'm'), 0)
  })

  it('publish sends a message once if the cluster refuses it for another reason', async () => {
    const { scripts, sent } = scriptsOf(true, new Error('NOPERM'))
    await assert.rejects(publish(scripts, 'c', 'm'), { message: 'NOPERM' })
    assert.equal(sent.length, 1)
  })

  it('publish sends on the plain channel elsewhere', async () => {
    const { scripts, sent } = scriptsOf(false, 1)
    assert.equal(await publish(scripts, 'c', 'm'), 2)
    assert.deepEqual(sent, ['PUBLISH at the node of c'])
  })
})
