import { watchProcess } from '../leak-check.js'
import { claimPort } from '../servers/free-port.js'
import { startRedis } from '../servers/redis-server.js'
import { sleep } from '../wait-until.js'
import { onCommand, report } from './child.js'

/** The child of support.test.ts: executes commands and reports that. */
interface Command {
  do: 'echo' | 'claim port' | 'start redis' | 'complain' | 'be quiet' | 'tick' | 'say and exit' | 'finish'
  value?: unknown
}

const finish = onCommand<Command>(async (command) => {
  if (command.do === 'echo') {
    console.log('not a message')
    report({ value: command.value, args: process.argv.slice(2), execArgv: process.execArgv, env: process.env })
  }
  if (command.do === 'claim port') report({ claimed: await claimPort(command.value as number) })
  if (command.do === 'start redis') {
    const server = await startRedis()
    const [, dir] = (await server.admin.config('GET', 'dir')) as string[]
    report({ url: server.url, dir })
  }
  if (command.do === 'complain' || command.do === 'be quiet') {
    const watch = watchProcess()
    if (command.do === 'complain') complain()
    const quiet = await watch.assertQuiet().then(
      () => true,
      () => false,
    )
    await sleep(10)
    report({ quiet, complaints: watch.complaints })
    watch.stop()
  }
  if (command.do === 'tick') setInterval(() => report({ tick: true }), 1)
  if (command.do === 'say and exit') {
    console.error('written to stderr')
    report({ last: 'words' })
    process.exit(3)
  }
  if (command.do === 'finish') finish()
})
report({ ready: true })

function complain(): void {
  void Promise.reject(new Error('nobody catches this'))
  setTimeout(() => {}, 2 ** 31).unref()
  for (let i = 0; i < 11; i++) process.on('SIGUSR2', () => {})
  process.nextTick(() => {
    throw new Error('thrown in a tick')
  })
}
