/** Who an operator is by default, for the audit. */
import assert from 'node:assert/strict'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { it, mock } from 'node:test'
import { userAtHost } from '../../src/platform.js'

it('an operator is the user and the host of the process', () => {
  assert.equal(userAtHost(), `${os.userInfo().username}@${os.hostname()}`)
})

it('an operator is the host alone in a container whose user has no entry in passwd', () => {
  mock.method(os, 'userInfo', () => {
    throw new Error('uv_os_get_passwd returned ENOENT')
  })
  syncBuiltinESMExports()
  try {
    assert.equal(userAtHost(), os.hostname())
  } finally {
    mock.restoreAll()
    syncBuiltinESMExports()
  }
})
