export const USAGE = `Usage: holdfast <command> [options]

Distributed locks on Redis, shared with every program that uses Holdfast or Redisson.

Commands:
  run     run a program while holding a lock
  doctor  what is wrong with a Redis for locks, and how to fix it
  demo    a flash sale, without a lock and with one
  help    what a command does: holdfast help run

Options:
  --help      print this
  --version   print the version`

export const RUN_USAGE = `Usage: holdfast run <lock> [options] -- <program> [arguments]

Waits for the lock, runs the program while holding it, and releases it when the program ends.

  --permits N             let up to N copies run at once across all machines, by a semaphore of this name; the N that
                          was given last counts (default: one, by a lock)
  --wait DURATION         longest wait for the lock; 0 tries once (default: no limit)
  --lease DURATION        hold the lock for this long, without renewal: the program must end within it
                          (default: renewed for as long as the program runs)
  --on-lost term          when the lock is lost, send the program SIGTERM, and SIGKILL if it is still there after the
                          grace period (default)
  --on-lost kill          send SIGKILL at once
  --on-lost warn          let the program go on
  --grace DURATION        time from SIGTERM to SIGKILL (default 10s)
  --conflict-exit-code N  exit code when the lock did not come free in time (default 75)
  --redis URL             redis://[user:password@]host:port[/database], or rediss:// for TLS
                          (default $REDIS_URL, else redis://127.0.0.1:6379). Other users of this machine can see it in
                          the process list: a password is better off in REDIS_URL
  --config FILE           a configuration of Redisson instead, YAML or JSON: for Sentinel, a cluster, and more
                          (default $HOLDFAST_CONFIG)
  --verbose               say on stderr what happens
  -h, --help              print this

A DURATION is a number with a unit: 500ms, 30s, 5m, 2h.

The program gets HOLDFAST_LOCK (the lock's name) and HOLDFAST_HOLDER (who holds it, as Redis has it; with --permits
the permit's id) in its environment.
SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to it. Signals reach the program itself, not what it
starts: a shell script should exec what it runs last, or handle them.

Exit code: the program's own, 128 + N if signal N ended it or the wait for the lock, or
   64  wrong usage
   69  Redis cannot be reached, refuses the password, or does not answer; the program was not run
   75  the lock did not come free in time; the program was not run
   76  the lock was lost while the program ran, whatever the program's own exit code was
  126  the program cannot be executed
  127  the program was not found

Examples:
  holdfast run nightly-report --wait 0 -- ./report.sh
  holdfast run deploy:shop --wait 10m --verbose -- make deploy
  holdfast run thumbnails --permits 4 -- ./thumbnails.sh`
