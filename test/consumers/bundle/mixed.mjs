import assert from 'node:assert/strict'
import { connect } from 'holdfast'
import { requiredConnect } from './required.cjs'

assert.equal(connect, requiredConnect)
