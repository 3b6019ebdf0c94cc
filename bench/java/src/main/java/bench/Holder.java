package bench;

/** Holds many locks and leaves renewal to the library. */
final class Holder implements Job {
    private final Locker locker;
    private final String name;
    private final int locks;

    Holder(Locker locker, Assignment assignment) {
        this.locker = locker;
        name = assignment.text("name");
        locks = assignment.number("locks");
    }

    @Override
    public void start() throws Exception {
        for (int number = 0; number < locks; number++) locker.acquire(name + ":" + number);
    }

    @Override
    public String measure(int ms) throws Exception {
        long cpu = Contender.cpuNanos();
        Thread.sleep(ms);
        return String.format("\"cpuMs\":%d", (Contender.cpuNanos() - cpu) / 1_000_000);
    }
}
