package bench;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Threads that sell from one stock in Redis, under a lock, until it is sold out. */
final class Sale implements Job {
    private final Locker locker;
    private final String name;
    private final RBucket<String> stock;
    private final int tasks;
    private final AtomicInteger sold = new AtomicInteger();
    private final AtomicLong lastSoldAt = new AtomicLong();

    Sale(Locker locker, RedissonClient redisson, Assignment assignment) {
        this.locker = locker;
        name = assignment.text("name");
        stock = redisson.getBucket("bench:stock", StringCodec.INSTANCE);
        tasks = assignment.number("tasks");
    }

    @Override
    public void start() {
        stock.get();
    }

    @Override
    public String measure(int ms) throws Exception {
        long startedAt = System.currentTimeMillis();
        Thread[] threads = new Thread[tasks];
        for (int task = 0; task < tasks; task++) {
            threads[task] = new Thread(this::sell);
            threads[task].start();
        }
        for (Thread thread : threads) thread.join();
        return String.format("\"sold\":%d,\"startedAt\":%d,\"lastSoldAt\":%d", sold.get(), startedAt, lastSoldAt.get());
    }

    private void sell() {
        try {
            for (boolean isLeft = true; isLeft; ) {
                Locker.Release release = locker.acquire(name);
                int left = Integer.parseInt(stock.get());
                isLeft = left > 0;
                if (isLeft) {
                    stock.set(String.valueOf(left - 1));
                    sold.incrementAndGet();
                    lastSoldAt.set(System.currentTimeMillis());
                }
                release.run();
            }
        } catch (Exception error) {
            Contender.fail(error);
        }
    }
}
