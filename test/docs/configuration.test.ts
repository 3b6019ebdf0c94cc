/** The configurations that the pages show work as they stand. */
import { describe, it } from 'node:test'
import { loadConfig } from '../../src/config/load.js'
import { codeBlocksOf, PAGES } from './code-blocks.js'

/** Other YAML in the pages is for Kubernetes, Spring and Prometheus. */
const BLOCKS = PAGES.flatMap(codeBlocksOf).filter(
  ({ language, lines }) =>
    language === 'yaml' && !lines.some((line) => /^(apiVersion|spring|scrape_configs):/.test(line)),
)

describe('a configuration of the pages', () => {
  for (const { page, line, lines } of BLOCKS) {
    it(`a configuration of the pages at ${page}:${line} is accepted unchanged`, async () => {
      const env = { REDIS_PASSWORD: 'a', SENTINEL_PASSWORD: 'b' }
      await loadConfig(lines.join('\n'), { env })
    })
  }
})
