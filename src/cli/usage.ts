// Help texts.
export const USAGE = `Usage: holdfast <command> [options]

Distributed locks on Redis, shared with every program that uses Holdfast or Redisson.

Commands:
  run        run a program while holding a lock
  jobs       when run ran each program, with what result, and which are overdue
  ls         list locks: how long held, by whom, for what, and how many are waiting
  who        everything known about one lock
  top        the contended and the oldest locks, live
  watch      each change to one lock, from now on
  unlock     end the hold of one holder, which is notified first
  deadlocks  find call chains that wait for each other
  ui         serve a dashboard: who holds which lock, who is waiting, and a way to break locks
  doctor     check whether a Redis is fit for locks, and how to fix it
  demo       a flash sale, without a lock and with one
  help       help for a command: holdfast help run

Options:
  -h, --help     print this help
  -v, --version  print the version`

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
  --every DURATION        how often the program should succeed: holdfast jobs shows it as overdue a tenth of that later.
                          Applies until another one is given; 0 ends it (default: as before)
  --no-record             do not record when it started and ended, and its exit code, for holdfast jobs
  --label TEXT            what holdfast ls shows of this run (default: the host and the program, without its arguments)
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
  --verbose               log to stderr, with the time
  --log json              log lines of JSON to stderr: time, level, message, lock, and details; also of the grant and
                          the end (default text)
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
   77  the Redis user lacks a right; the program was not run
  126  the program cannot be executed
  127  the program was not found

Examples:
  holdfast run lock:nightly-report --at-least 10m --every 24h -- ./report.sh
  holdfast run lock:deploy:shop --wait 10m --verbose -- make deploy
  holdfast run lock:thumbnails --permits 4 -- ./thumbnails.sh`

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
  --role ROLE      what the user is for, in the rule and in the checks: app (default), viewer for one that only sees locks
                   (jobs, ls, who, top, watch, deadlocks), or operator for one that may also break them (unlock). As viewer,
                   nothing is written
  --user NAME      with --acl: the name of that user (default: its role)
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

const FLEET_OPTIONS = `  --json              print JSON, one value per line; a duration without end is null
  --timeout DURATION  how long to wait for replies from clients (default 300ms)
  --no-color          no colours; the same as the environment variable NO_COLOR
  --redis URL         which Redis (default $HOLDFAST_CONFIG or $REDIS_URL, else redis://127.0.0.1:6379). Other users of
                      this machine may see it in the process list: pass a password in REDIS_URL instead
  --config FILE       Redisson configuration, YAML or JSON, for Sentinel, clusters and more
  -h, --help          print this help`

const FLEET_EXITS = `   64  wrong usage
   69  Redis is unreachable, rejects the password, or does not reply
   70  a bug in holdfast
   77  the Redis user lacks a right`

const SIGNS = `● responding
○ silent: connected, but its event loop is blocked, its process is stopped, or it is cut off
✗ disconnected: nobody listens on its inbox, so its process is gone or cut off
? unlisted: it does not describe itself: Redisson, an older Holdfast, one without inspection, or one that has not waited
  yet and has held its lock for less than a second`

/** Help texts of the commands for operators. */
export const FLEET_USAGE = {
  ls: `Usage: holdfast ls [pattern] [options]

Lists locks: how long they have been held, by whom, for what, and how many are waiting. The pattern is a Redis glob,
such as 'lock:order:*'. Read-only.

  --contended         only locks with waiters
  --older-than DURATION
                      only locks held for at least this long, and those of unknown age
  --sort ORDER        age (default), waiters or name
${FLEET_OPTIONS}

${SIGNS}

Exit code:
    0  listed
    2  listed, but something could not be seen: a line with ! says what
${FLEET_EXITS}`,

  who: `Usage: holdfast who <lock> [options]

Prints everything known about one lock: its holders, since when and for what they hold it, and who is waiting.
Read-only.

  --stack             also print where it was taken, if its client has inspection: { stacks: true }
  --trace             also print from which address each holder is renewed, Redisson's too. This runs MONITOR for 10 s, or
                      for --timeout, or until each was seen. MONITOR slows a busy Redis, and needs +monitor
${FLEET_OPTIONS}

${SIGNS}

Exit code:
    0  it is held, no permit of it is free, or the latch is closed
    1  it is free
    2  the key does not show what it is
${FLEET_EXITS}`,

  top: `Usage: holdfast top [pattern] [options]

Shows contended locks first, then the oldest, updated live. It looks for all locks every 30 s; in between, it reads
only those with waiters and those shown. An age such as >40.2s is how long this command has seen the hold. Read-only.

  --interval DURATION how often to refresh (default 1s)
  --once              print once
${FLEET_OPTIONS}

Exit code:
    0  with --once
  130  ended by Ctrl-C
${FLEET_EXITS}`,

  watch: `Usage: holdfast watch <lock> [options]

Prints a line when a lock is taken, when a hold ends, and when a waiter comes or goes. It listens to the messages of the
lock's releases and checks the lock right after each of them, at most 20 times a second. What has no message is found once per
interval, or soon after a release: grants, waiters, the ends of leases, and releases of fair, spin and string locks.
Read-only.

  --interval DURATION how often to poll without a message (default 1s; 250ms if this user may not subscribe)
${FLEET_OPTIONS}

Exit code:
  130  ended by Ctrl-C
${FLEET_EXITS}`,

  unlock: `Usage: holdfast unlock <lock> --holder HOLDER [options]

Ends the hold of exactly this holder. The holder is notified, its signal aborts, and the lock is released once its work
has stopped, after the grace period at the latest. A holder that has not reacted 2.5 s after that keeps the lock,
unless --anyway is given.

  --holder HOLDER     the complete holder, as holdfast who prints it; nothing happens if another one holds the lock
  --reason TEXT       recorded in the audit, and passed to the holder in its LeaseLostError
  --grace DURATION    how long the holder may take to stop, at most 60s (default 2s)
  --anyway            free the lock even if the holder does not react: it may still be working
  --quarantine DURATION
                      with --anyway: let nobody have the lock for so long first, at most 60s, so that a holder that is
                      alive notices its loss; 10s is a renewal period. Not for read and write locks
  --yes               do not ask to type the lock's name
${FLEET_OPTIONS}

Exit code:
    0  released or freed
    1  not held by that holder; nothing has changed
   75  the holder did not react; nothing has changed
   77  not confirmed, or the Redis user lacks a right
   64, 69 and 70 as for the other commands`,

  deadlocks: `Usage: holdfast deadlocks [options]

Finds call chains that wait for each other, in any processes. A reported deadlock is certain: all of its holds and waits
were seen twice. Possible deadlocks are listed separately. Java's waits are known only for fair locks. Read-only.

  --watch             keep searching, and print what is new
  --interval DURATION with --watch: how often to search (default 1s)
${FLEET_OPTIONS}

Exit code:
    0  none
    1  at least one; possible ones do not count
  130  ended by Ctrl-C
${FLEET_EXITS}`,

  jobs: `Usage: holdfast jobs [name...] [options]

Lists what holdfast run has recorded of each job, or of those named: when its last run started, how long it ran, its exit
code, and when it last succeeded, by the clock of Redis. Read-only.

  never-started       its lock was taken whenever it was to start, or there is no record
  killed              its last run has not reported its end, and no longer holds its lock
  overdue             no success for longer than --every of holdfast run, and a tenth of that
  late                its last run started that much later than the run before
  hidden              this Redis user may not read its record

${FLEET_OPTIONS}

Exit code:
    0  all is well
    1  a job that has --every or is named is overdue, failed or was killed, or one that is named has never started
    2  none of those, but one is hidden
${FLEET_EXITS}`,
}

export const UI_USAGE = `Usage: holdfast ui [options]

Serves a dashboard on this machine: which locks are held, by whom, since when and for what, who is waiting, deadlocks,
and a way to break locks. Prints its URL, with a token that is valid until the program ends.

  --port N           port to listen on (default: any free one)
  --host ADDRESS     address to listen on (default 127.0.0.1). On any but a loopback address the dashboard is read-only,
                     and there is no TLS: rather forward a port with ssh -L, or use a proxy with TLS
  --read-only        locks cannot be broken: the route does not exist
  --allow-unlock     locks can be broken on any address, not only on loopback
  --allow-host NAME  another host name under which browsers may request it, such as a proxy's; may be repeated
  --no-open          do not open a browser
  --redis URL        the Redis to show (default $HOLDFAST_CONFIG or $REDIS_URL, else redis://127.0.0.1:6379). Other users
                     of this machine may see it in the process list: pass a password in REDIS_URL instead
  --config FILE      Redisson configuration, YAML or JSON, for Sentinel, clusters and more
  -h, --help         print this help

Environment:
  HOLDFAST_METRICS_TOKEN  what Prometheus sends as its bearer token: it admits to /metrics and to nothing else

Exit code:
    0  ended by a signal, such as Ctrl-C
   64  wrong usage
   69  Redis is unreachable or rejects the password, or the port is taken
   70  a bug in holdfast`
