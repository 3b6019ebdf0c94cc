require('take-a-lock')
  .takeALock(require('holdfast'))
  .catch((error) => {
    console.error(error)
    process.exitCode = 1
  })
