import { connect } from 'holdfast'

export const runtime = 'edge'

export function GET() {
  return new Response(typeof connect)
}
