/** On an edge runtime the import of the built package fails, with one error that says what to do. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

describe('the package on an edge runtime', () => {
  for (const condition of ['edge-light', 'workerd']) {
    it(`the package is bundled for ${condition} without a warning, and its import says where it can run`, async () => {
      const { outputFiles, warnings, metafile } = await build({
        stdin: {
          contents:
            "import { connect } from 'holdfast'\nimport { createTestRedis } from 'holdfast/testing'\nconnect(createTestRedis)",
          resolveDir: ROOT,
        },
        bundle: true,
        write: false,
        metafile: true,
        absWorkingDir: ROOT,
        platform: 'browser',
        conditions: [condition],
      })
      assert.deepEqual(warnings, [])
      assert.deepEqual(Object.keys(metafile.inputs), ['dist/edge.cjs', '<stdin>'])
      assert.throws(() => runInNewContext(outputFiles[0]?.text ?? ''), {
        message: /^holdfast cannot run on an edge runtime.*Next\.js/,
      })
    })
  }
})
