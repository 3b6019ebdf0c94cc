package bench;

import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Threads that acquire a lock, do something inside and rest, repeatedly. */
final class Loops implements Job {
    private static final int SAMPLES = 20_000;
    private static final int MOST = 1_000_000;

    private final Locker locker;
    private final String name;
    private final int tasks;
    private final boolean each;
    private final int sectionMs;
    private final int restMs;
    private final int atOnce;

    private final int[] sections;
    private final double[] latencies = new double[MOST];
    private final double[] handOffs = new double[MOST];
    private final AtomicInteger latencyCount = new AtomicInteger();
    private final AtomicInteger handOffCount = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger waiting = new AtomicInteger();
    private volatile long releasedAt;
    private volatile long endsAt = Long.MAX_VALUE;

    Loops(Locker locker, Assignment assignment) {
        this.locker = locker;
        name = assignment.text("name");
        tasks = assignment.number("tasks");
        each = assignment.is("each");
        sectionMs = assignment.number("sectionMs");
        restMs = assignment.number("restMs");
        sections = new int[tasks];
        String kind = assignment.text("kind");
        boolean many = each || kind.equals("read");
        atOnce = many ? Integer.MAX_VALUE : kind.equals("semaphore") || kind.equals("permit") ? assignment.number("permits") : 1;
    }

    @Override
    public void start() throws Exception {
        for (int task = 0; task < (each ? tasks : 1); task++) locker.prepare(nameOf(task));
        for (int task = 0; task < tasks; task++) {
            int number = task;
            Thread thread = new Thread(() -> loop(number));
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    public String measure(int ms) throws Exception {
        Arrays.fill(sections, 0);
        latencyCount.set(0);
        handOffCount.set(0);
        overlaps.set(0);
        long cpu = Contender.cpuNanos();
        endsAt = System.nanoTime() + ms * 1_000_000L;
        Thread.sleep(ms);
        return String.format(
                "\"sections\":%s,\"latencies\":%s,\"handOffs\":%s,\"overlaps\":%d,\"refused\":0,\"cpuMs\":%d",
                Arrays.toString(sections),
                sample(latencies, latencyCount.get()),
                sample(handOffs, handOffCount.get()),
                overlaps.get(),
                (Contender.cpuNanos() - cpu) / 1_000_000);
    }

    private void loop(int task) {
        try {
            String name = nameOf(task);
            rest();
            for (; ; ) {
                long askedAt = System.nanoTime();
                if (askedAt >= endsAt) return;
                waiting.incrementAndGet();
                Locker.Release release = locker.acquire(name);
                waiting.decrementAndGet();
                if (releasedAt != 0 && !each) add(handOffs, handOffCount, System.nanoTime() - releasedAt);
                releasedAt = 0;
                if (inside.incrementAndGet() > atOnce) overlaps.incrementAndGet();
                if (sectionMs > 0) Thread.sleep(sectionMs);
                inside.decrementAndGet();
                if (waiting.get() > 0 && !each) releasedAt = System.nanoTime();
                release.run();
                long now = System.nanoTime();
                if (now < endsAt) {
                    sections[task]++;
                    add(latencies, latencyCount, now - askedAt);
                }
                rest();
            }
        } catch (Exception error) {
            Contender.fail(error);
        }
    }

    private void rest() throws InterruptedException {
        if (restMs > 0) Thread.sleep(ThreadLocalRandom.current().nextInt(2 * restMs));
    }

    private String nameOf(int task) {
        return each ? name + ":" + task : name;
    }

    private static void add(double[] values, AtomicInteger count, long nanos) {
        int index = count.getAndIncrement();
        if (index < MOST) values[index] = nanos / 1e6;
    }

    private static String sample(double[] values, int count) {
        int length = Math.min(count, MOST);
        int step = Math.max(1, (length + SAMPLES - 1) / SAMPLES);
        return IntStream.range(0, (length + step - 1) / step)
                .mapToObj((index) -> String.format(Locale.ROOT, "%.3f", values[index * step]))
                .collect(Collectors.joining(",", "[", "]"));
    }
}
