export const USAGE = `Usage: holdfast <command> [options]

Distributed locks on Redis, shared with every program that uses Holdfast or Redisson.

Commands:
  run     run a program while holding a lock
  doctor  check whether a Redis is fit for locks, and how to fix it
  demo    a flash sale, without a lock and with one
  help    help for a command: holdfast help run

Options:
  -h, --help  print this help
  --version   print the version`

export const RUN_USAGE = `Usage: holdfast run <lock> [options] -- <program> [arguments]

Waits for the lock, runs the program while holding it, and releases it when the program ends.

  --permits N             allow up to N copies at once across all machines, using a semaphore of this name; if copies
                          disagree, the last N applies (default: one copy, using a lock)
  --wait DURATION         longest wait for the lock; 0 tries once (default: no limit)
  --at-least DURATION     run the program at most once in this time across all machines: the lock stays taken until then,
                          even if the program ends early or fails. For cron: longer than clocks can differ, shorter
                          than the interval between runs. Implies --wait 0 (default: off)
  --lease DURATION        hold the lock this long without renewal: the program must end within it
                          (default: renewed while the program runs)
  --on-lost term          if the lock is lost, send the program SIGTERM, then SIGKILL after the grace period (default)
  --on-lost kill          send SIGKILL immediately
  --on-lost warn          let the program continue
  --grace DURATION        time from SIGTERM to SIGKILL (default 10s)
  --conflict-exit-code N  exit code if the lock was not acquired in time (default 75)
  --redis URL             redis://[user:password@]host:port[/database], or rediss:// for TLS
                          (default $REDIS_URL, else redis://127.0.0.1:6379). Other users of this machine may see it in
                          the process list: pass a password in REDIS_URL instead
  --config FILE           Redisson configuration, YAML or JSON, for Sentinel, clusters and more
                          (default $HOLDFAST_CONFIG)
  --verbose               log to stderr
  -h, --help              print this help

A DURATION is a number with a unit: 500ms, 30s, 5m, 2h.

The program's environment has HOLDFAST_LOCK (the lock's name) and HOLDFAST_HOLDER (the holder as stored in Redis; with
--permits, the permit id).
SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the program, but not to its children: a shell
script should exec its last command, or handle them.

Exit code: the program's own, 128 + N if signal N ended it or the wait for the lock, or
   64  wrong usage
   69  Redis is unreachable, rejects the password, or does not reply; the program was not run
   70  a bug in holdfast
   75  the lock was not acquired in time; the program was not run
   76  the lock was lost while the program ran, whatever the program's own exit code
  126  the program cannot be executed
  127  the program was not found

Examples:
  holdfast run nightly-report --at-least 10m -- ./report.sh
  holdfast run deploy:shop --wait 10m --verbose -- make deploy
  holdfast run thumbnails --permits 4 -- ./thumbnails.sh`

export const DOCTOR_USAGE = `Usage: holdfast doctor [options]

Checks whether a Redis deployment is fit for locks, and reports what is wrong, why it matters, and how to fix it. It
only reads, except for a trial lock with a random name, which it removes.

  --redis URL      the Redis to check (default $HOLDFAST_CONFIG or $REDIS_URL, else redis://127.0.0.1:6379). Other users
                   of this machine may see it in the process list: pass a password in REDIS_URL instead
  --config FILE    Redisson configuration, YAML or JSON: one server, master and replicas, Sentinel, or a cluster
  --prefix PREFIX  the prefix of your lock names (default lock:), which the trial locks use too
  --json           print one line of JSON instead: { ok, checks: [{ id, status, message, why, fix, … }] }
  --verbose        also print the reason and the id of checks that are OK
  --acl            only print the ACL SETUSER rule, for redis-cli, of a Redis user that may do everything Holdfast does
                   with these names. Replace "secret" in it. It fits the version of the server; without an address it
                   is for Redis 7.2 or later and Valkey
  --user NAME      the name of that user (default app)
  -h, --help       print this help

Exit code:
    0  no problems; there may be warnings
    1  at least one problem
   64  wrong usage
   69  Redis is unreachable or rejects the password
   70  a bug in holdfast`

export const DEMO_USAGE = `Usage: holdfast demo [options]

A flash sale: several processes sell the same limited stock, first without a lock, then with one. The first sale
oversells, the second never does. Takes a few seconds.

  --processes N   number of selling processes, 1 to 32 (default 4); each serves 4 buyers at a time
  --stock N       units in stock, 1 to 10000 (default 300)
  --redis URL     the Redis to use (default $REDIS_URL; without it, the demo starts and stops a private redis-server).
                  The demo's keys begin with holdfast:demo: and are deleted at the end
  --embedded      no Redis at all: the demo brings one in memory, which is not a real one
  --json          print the result as one line of JSON on stdout, and everything else on stderr
  -h, --help      print this help

Exit code:
    0  nothing was oversold with the lock
    1  something was: please report it
   64  wrong usage
   69  no Redis is available, and none can be started
   70  any other failure`
