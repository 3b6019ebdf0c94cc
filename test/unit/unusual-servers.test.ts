/** Which errors show that a server is not a common Redis. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { addressesUnknown, lacksInfo } from '../../src/util/unusual-servers.js'

it('a server without INFO is recognised by its reply, in whatever way it spells the command', () => {
  for (const message of [
    "ERR unknown command 'INFO', with args beginning with: ",
    'ERR unknown command `info`',
    'ERR unknown command info',
  ]) {
    assert.equal(lacksInfo(new Error(message)), true, message)
  }
  for (const message of ["ERR unknown command 'INFORM'", "ERR unknown command 'WAIT'", 'NOPERM info', 'info']) {
    assert.equal(lacksInfo(new Error(message)), false, message)
  }
})

it('a cluster that does not say where its nodes are is reported with the setting that helps', () => {
  assert.match(addressesUnknown().message, /cluster-preferred-endpoint-type/)
})
