// The projects of `npm run verify -- consumers`: what they install, and the commands that have to work. `files` is a folder here,
// `page` a page whose programs are files of the project, each at the path in its first line; `sources` are modules of the
// tests that it gets as one file each.
// docs/compatibility.md says what came out, and what does not work.

const NODE_TYPES = { '@types/node': '^20.19.0' }
const NEWEST_NODE_TYPES = { '@types/node': '*' }
const IOREDIS = { ioredis: '^6.0.0' }
const TYPESCRIPT = { ...NODE_TYPES, typescript: '~5.9.3' }

/** Each takes a lock after it was compiled, except those for bundlers, which compile only. */
const MODES = {
  'CommonJS, node10': 'tsc -p tsconfig.node10.json && node out/node10/main.js',
  'CommonJS, node16': 'tsc -p tsconfig.node16.json && node out/node16/main.js',
  'CommonJS, nodenext': 'tsc -p tsconfig.nodenext.json && node out/nodenext/main.js',
  'ESM, nodenext': 'cp main.ts esm && tsc -p esm && node esm/out/main.js',
  bundler: 'tsc -p tsconfig.bundler.json',
  preserve: 'tsc -p tsconfig.bundler.json --module preserve',
  // Whose declarations cannot be checked: what a program calls must be there all the same.
  'without @types/node': 'tsc -p tsconfig.bare.json',
}
/** As TypeScript 6 has them: node10 is deprecated there and gone from 7. */
const { 'CommonJS, node10': node10, ...NEWER_MODES } = {
  ...MODES,
  'CommonJS, bundler': 'tsc -p tsconfig.bundler.json --module commonjs --outDir out/cjs && node out/cjs/main.js',
}

function typescript(version, range, checks = MODES, rest = {}, nodeTypes = NODE_TYPES) {
  const dependencies = { ...nodeTypes, ioredis: '^5.8.0', typescript: range }
  return {
    name: `typescript-${version}`,
    tool: `TypeScript ${version}`,
    files: 'typescript',
    dependencies,
    checks,
    ...rest,
  }
}

function node(line, version, rest = {}) {
  return {
    name: `node-${line}`,
    tool: `Node ${line}`,
    files: 'node',
    dependencies: { ...IOREDIS, node: version },
    checks: {
      require: 'node main.cjs',
      import: 'node main.mjs',
      'require and import': 'node both.cjs',
      'node:test': 'node --test lock.test.mjs',
      'watchdog thread': 'node thread.mjs',
    },
    ...rest,
  }
}

function jest(version, rest = {}) {
  return {
    name: `jest-${version}`,
    tool: `Jest ${version}`,
    files: 'jest',
    dependencies: {
      ...TYPESCRIPT,
      '@swc/core': '^1.11.0',
      '@swc/jest': '^0.2.37',
      '@types/jest': `^${version}.0.0`,
      ioredis: '^5.8.0',
      jest: `^${version}.0.0`,
      'ts-jest': '^29.4.0',
    },
    checks: {
      'babel-jest': 'jest --config jest.babel.json',
      'ts-jest': 'tsc --noEmit && jest --config jest.typescript.json',
      swc: 'jest --config jest.swc.json',
      'ES modules': 'node --experimental-vm-modules node_modules/jest/bin/jest.js --config jest.esm.json',
    },
    ...rest,
  }
}

function nest(version, jestVersion, checks, rest = {}, own = {}) {
  return {
    name: `nest-${version}`,
    tool: `Nest ${version}`,
    files: 'nest',
    dependencies: {
      ...TYPESCRIPT,
      '@nestjs/common': `^${version}.0.0`,
      '@nestjs/core': `^${version}.0.0`,
      '@nestjs/testing': `^${version}.0.0`,
      '@types/jest': `^${jestVersion}.0.0`,
      ioredis: '^5.8.0',
      jest: `^${jestVersion}.0.0`,
      'reflect-metadata': '^0.2.2',
      rxjs: '^7.8.1',
      'ts-jest': '^29.4.0',
      ...own,
    },
    checks,
    ...rest,
  }
}

/** Its own client, which is compiled against its types. */
function client(library, version, file, range, packages) {
  const compile = 'tsc --strict --skipLibCheck false --target ES2022 --types node --outDir out'
  return {
    name: `${file}-${version}`,
    tool: `${library} ${version}`,
    files: 'clients',
    dependencies: { ...TYPESCRIPT, ...Object.fromEntries(packages.map((name) => [name, range])) },
    checks: {
      CommonJS: `${compile} --module node16 --moduleResolution node16 ${file}.ts && node out/${file}.js`,
    },
  }
}

/** A bundle runs where there are no packages. */
const elsewhere = (file) => `rm -rf "../$NAME-moved" && cp -r out "../$NAME-moved" && node "../$NAME-moved/${file}"`

const REQUIRE = `--banner:js="import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)"`
const ESBUILD = 'esbuild --bundle --minify --platform=node --log-override:empty-import-meta=silent'

/**
 * Our own tests, as they were compiled, on another runtime. It runs them one after the other: several processes share the kinds
 * of locks.
 */
function suite(run, file, { driver = '', processes = 1 } = {}) {
  const one = `TEST_PART={}/${processes} TEST_DRIVERS="${driver}" ${run} ./build/test/${file}.test.js`
  return `cd "$ROOT" && seq 0 ${processes - 1} | xargs -P ${processes} -I {} sh -c '${one}'`
}
const BUN = 'bun test --timeout 60000'
const DENO = 'deno test -A --no-check'

/** What every runtime has to pass with the clients of Node. */
function contractOn(run) {
  return {
    'every kind, through ioredis': suite(run, 'redis/contract', { driver: 'an ioredis', processes: 4 }),
    'every kind, through node-redis': suite(run, 'redis/contract', { driver: 'a node-redis', processes: 4 }),
    'over HTTP': suite(run, 'adapters/http-contract'),
    'several processes': suite(run, 'redis/contract-ways', { processes: 3 }),
    ports: suite(run, 'adapters/port'),
    'what an application does on its client': suite(run, 'adapters/own-connection'),
    'unresponsive servers': suite(run, 'adapters/unresponsive-server'),
    'the watchdog thread': suite(run, 'redis/watchdog-thread'),
  }
}

const NEXT_BUILD = 'NEXT_TELEMETRY_DISABLED=1 next build'

export const CONSUMERS = [
  typescript('5.4', '~5.4.5'),
  typescript('5.5', '~5.5.4'),
  typescript('5.6', '~5.6.3'),
  typescript('5.7', '~5.7.3'),
  typescript('5.8', '~5.8.3'),
  typescript('5.9', '~5.9.3', MODES, { isCore: true }, NEWEST_NODE_TYPES),
  typescript(
    '6',
    '^6.0.0',
    { 'CommonJS, node10': node10.replace('tsc', 'tsc --ignoreDeprecations 6.0'), ...NEWER_MODES },
    {},
    NEWEST_NODE_TYPES,
  ),
  typescript('7', '^7.0.0', NEWER_MODES, {}, NEWEST_NODE_TYPES),
  node('20', '20.19.0'),
  node('22', '22.12.0'),
  node('24', '^24.0.0'),
  node('26', '^26.0.0', { isCore: true }),
  jest('29', { isCore: true }),
  jest('30', { isCore: true }),
  nest('10', '29', {
    'CommonJS, node10': 'tsc -p tsconfig.node10.json && node dist/main.js',
    'Jest 29': 'jest --config jest.config.json',
  }),
  nest(
    '11',
    '30',
    { CommonJS: 'tsc && node dist/main.js', 'Jest 30': 'jest --config jest.config.json' },
    { isCore: true },
  ),
  nest(
    '12',
    '30',
    {
      CommonJS: 'tsc && node dist/main.js',
      ESM: `sed "s#'./orders'#'./orders.js'#" src/main.ts > esm/main.ts && cp src/orders.ts esm && tsc -p esm && node esm/dist/main.js`,
      // Which loads ES modules by `require` on Node 24.9 or later, with this option.
      'Jest 30': 'node --experimental-vm-modules node_modules/jest/bin/jest.js --config jest.config.json',
    },
    {},
    { node: '^26.0.0' },
  ),
  {
    name: 'vitest',
    tool: 'Vitest 5',
    files: 'vitest',
    dependencies: { ...TYPESCRIPT, ...IOREDIS, '@types/node': '^24.0.0', vitest: '^5.0.0' },
    checks: { 'as it is': 'tsc && vitest run', inlined: 'vitest run --config vitest.inlined.mjs' },
  },
  {
    name: 'next',
    tool: 'Next 16',
    files: 'next',
    page: 'docs/recipes/nextjs.md',
    sources: ['test/support/servers/upstash-front.ts'],
    dependencies: {
      ...TYPESCRIPT,
      ...IOREDIS,
      '@types/react': '^19.0.0',
      '@types/react-dom': '^19.0.0',
      next: '^16.0.0',
      react: '^19.0.0',
      'react-dom': '^19.0.0',
    },
    checks: {
      'build without a Redis': `REDIS_URL=redis://127.0.0.1:1 ${NEXT_BUILD}`,
      'two requests for one order': 'node two-requests.mjs',
      'edge runtime': `mkdir app/edge && cp edge/route.ts app/edge && ${NEXT_BUILD} >log 2>&1 && ! grep 'not supported in the Edge Runtime' log && node edge.mjs || (cat log; exit 1)`,
    },
  },
  {
    name: 'workerd',
    tool: 'miniflare 4',
    files: 'workerd',
    sources: ['test/support/servers/upstash-front.ts', 'test/support/dice.ts'],
    isCore: true,
    dependencies: { ...IOREDIS, '@upstash/redis': '^1.39.0', esbuild: '^0.28.0', miniflare: '^4.20260426.0' },
    checks: {
      'each kind': `esbuild worker.mjs --bundle --minify --format=esm --conditions=workerd '--external:node:*' --outdir=out && node kinds.mjs`,
      'two isolates and Node on one lock, with faults': 'node storm.mjs',
    },
  },
  {
    name: 'esbuild',
    tool: 'esbuild',
    files: 'bundle',
    isCore: true,
    dependencies: { esbuild: '^0.28.0', ioredis: '^5.8.0' },
    checks: {
      'ESM, minified': `${ESBUILD} main.mjs --format=esm --outfile=out/main.mjs ${REQUIRE} && node out/main.mjs`,
      'CommonJS, minified': `${ESBUILD} main.mjs --format=cjs --outfile=out/main.cjs && node out/main.cjs`,
      'import and require in one bundle': `${ESBUILD} mixed.mjs --format=cjs --external:ioredis --outfile=out/mixed.cjs && node out/mixed.cjs`,
      'ESM, ioredis external': `${ESBUILD} main.mjs --format=esm --external:ioredis --external:take-a-lock --outfile=out/external.mjs && node out/external.mjs`,
      'watchdog thread': `${ESBUILD} thread.mjs node_modules/holdfast/dist/watchdog-thread.js --format=cjs --entry-names=[name] --out-extension:.js=.cjs --outdir=out && ${elsewhere('thread.cjs')}`,
    },
  },
  {
    name: 'tsup',
    tool: 'tsup 9',
    files: 'bundle',
    dependencies: { ...TYPESCRIPT, ...IOREDIS, tsup: '^9.0.0' },
    checks: {
      'packages external': 'tsup main.mjs --format esm,cjs && node dist/main.mjs && node dist/main.js',
      bundled: `tsup --config tsup.bundled.json && ${elsewhere('main.js')}`,
      'watchdog thread': `tsup --config tsup.thread.cjs && ${elsewhere('thread.cjs')}`,
    },
  },
  {
    name: 'webpack',
    tool: 'webpack 5',
    files: 'bundle',
    dependencies: { ...IOREDIS, webpack: '^5.100.0', 'webpack-cli': '^7.0.0' },
    checks: {
      'CommonJS, minified': `webpack && ${elsewhere('main.cjs')}`,
      'import and require in one bundle': elsewhere('mixed.cjs'),
      'watchdog thread': elsewhere('thread.cjs'),
    },
  },
  {
    name: 'ncc',
    tool: 'ncc',
    files: 'bundle',
    dependencies: { ...IOREDIS, '@vercel/ncc': '^0.45.0' },
    checks: {
      CommonJS: `ncc build main.cjs -o out && ${elsewhere('index.cjs')}`,
      'CommonJS, minified': `ncc build main.cjs --minify -o out && ${elsewhere('index.cjs')}`,
      ESM: `ncc build main.mjs -o out && ${elsewhere('index.mjs')}`,
      'watchdog thread': `ncc build ncc-thread.cjs -o out && ncc build node_modules/holdfast/dist/watchdog-thread.js -o out/thread && ${elsewhere('index.cjs')}`,
    },
  },
  {
    name: 'bun',
    tool: 'Bun',
    files: 'node',
    isCore: true,
    dependencies: { ...IOREDIS, '@types/bun': '^1.4.0', bun: '^1.4.0', typescript: '~5.9.3' },
    checks: {
      require: 'bun main.cjs',
      import: 'bun main.mjs',
      'require and import': 'bun both.cjs',
      'bun test': 'bun test lock.bun.test.mjs',
      'watchdog thread': 'bun thread.mjs',
      "Bun's client": `tsc --strict --noEmit --target ES2022 --module esnext --moduleResolution bundler --types bun bun-client.ts && bun bun-client.ts`,
      'the port to it': suite(BUN, 'adapters/bun'),
      'a round of every kind': suite(BUN, 'contract/rounds'),
    },
  },
  {
    name: 'bun-contract',
    tool: 'Bun',
    files: 'node',
    dependencies: { bun: '^1.4.0' },
    checks: {
      "every kind, through Bun's client": suite(BUN, 'redis/contract', { driver: 'of Bun', processes: 4 }),
      ...contractOn(BUN),
      'waiters without a subscriber': suite(BUN, 'redis/waiters-without-subscriber'),
    },
  },
  {
    name: 'deno-contract',
    tool: 'Deno',
    files: 'node',
    dependencies: { deno: '^2.9.0' },
    checks: contractOn(DENO),
  },
  {
    name: 'deno',
    tool: 'Deno',
    files: 'node',
    isCore: true,
    dependencies: { ...IOREDIS, deno: '^2.9.0' },
    checks: {
      require: 'deno run -A main.cjs',
      import: 'deno run -A main.mjs',
      'require and import': 'deno run -A both.cjs',
      'watchdog thread': 'deno run -A thread.mjs',
      'a round of every kind': suite(DENO, 'contract/rounds'),
    },
  },
  ...['5.4', '5.5', '5.6', '5.7', '5.8', '5.9', '5.10', '5.11', '6.0'].map((version) =>
    client('ioredis', version, 'ioredis', `~${version}.0`, ['ioredis']),
  ),
  ...['4.7', '5.0', '5.12', '6.0', '6.3'].map((version) =>
    client('node-redis', version, 'node-redis', `~${version}.0`, ['redis']),
  ),
  client('valkey-glide', '2.5', 'valkey-glide', '~2.5.0', ['@valkey/valkey-glide']),
]
