module.exports = {
  mode: 'production',
  target: 'node',
  node: { __dirname: false },
  entry: {
    main: './main.mjs',
    mixed: './mixed.mjs',
    thread: './thread.mjs',
    'watchdog-thread': 'holdfast/watchdog-thread',
  },
  output: { path: `${__dirname}/out`, filename: '[name].cjs' },
}
