export default { test: { server: { deps: { inline: ['holdfast'] } } } }
