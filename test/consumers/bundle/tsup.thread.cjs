module.exports = {
  entry: { thread: 'thread.mjs', 'watchdog-thread': 'node_modules/holdfast/dist/watchdog-thread.js' },
  format: 'cjs',
  noExternal: [/./],
  minify: true,
  outDir: 'out',
  outExtension: () => ({ js: '.cjs' }),
}
