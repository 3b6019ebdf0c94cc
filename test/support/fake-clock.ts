export { turn, VirtualClock as FakeClock } from '../../src/testing/virtual-clock.js'
