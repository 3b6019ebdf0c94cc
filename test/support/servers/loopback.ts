/** Imported first, it lets every server of the process listen on 127.0.0.1 only, whatever it asks for. */
import { type ListenOptions, Server } from 'node:net'

const listen = Server.prototype.listen as (this: Server, options: ListenOptions, ...rest: unknown[]) => Server

Server.prototype.listen = function (this: Server, first: unknown, ...rest: unknown[]) {
  const options = typeof first === 'object' ? (first as ListenOptions) : { port: Number(first) }
  const callbacks = rest.filter((argument) => typeof argument === 'function')
  return listen.call(this, { ...options, host: '127.0.0.1' }, ...callbacks)
} as Server['listen']
