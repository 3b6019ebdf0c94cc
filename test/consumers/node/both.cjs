// `require` and `import` load one and the same implementation.
const assert = require('node:assert/strict')

const PATHS = ['', '/ioredis', '/node-redis', '/valkey-glide', '/config']

async function main() {
  for (const path of PATHS) {
    const required = require(`holdfast${path}`)
    const imported = await import(`holdfast${path}`)
    assert.notEqual(Object.keys(required).length, 0)
    for (const [name, value] of Object.entries(required))
      assert.equal(imported[name], value, `${name} of holdfast${path}`)
  }
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
