package bench;

import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

final class RedissonLocker implements Locker {
    private final RedissonClient redisson;
    private final Assignment assignment;
    private final String kind;

    RedissonLocker(RedissonClient redisson, Assignment assignment) {
        this.redisson = redisson;
        this.assignment = assignment;
        this.kind = assignment.text("kind");
    }

    static RedissonClient open(Assignment assignment) {
        Config config = new Config();
        config.setLockWatchdogTimeout(assignment.number("leaseMs"));
        config.useSingleServer().setAddress(assignment.text("url"));
        return Redisson.create(config);
    }

    @Override
    public void prepare(String name) {
        int permits = assignment.number("permits");
        if (kind.equals("semaphore")) redisson.getSemaphore(name).trySetPermits(permits);
        if (kind.equals("permit")) redisson.getPermitExpirableSemaphore(name).trySetPermits(permits);
    }

    @Override
    public Release acquire(String name) throws InterruptedException {
        switch (kind) {
            case "semaphore":
                RSemaphore semaphore = redisson.getSemaphore(name);
                semaphore.acquire();
                return semaphore::release;
            case "permit":
                RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(name);
                String permit = permits.acquire(assignment.number("leaseMs"), TimeUnit.MILLISECONDS);
                return () -> permits.release(permit);
            default:
                RLock lock = lock().apply(name);
                lock.lock();
                return lock::unlock;
        }
    }

    private Function<String, RLock> lock() {
        switch (kind) {
            case "fair":
                return redisson::getFairLock;
            case "read":
                return (name) -> redisson.getReadWriteLock(name).readLock();
            case "write":
                return (name) -> redisson.getReadWriteLock(name).writeLock();
            case "fenced":
                return redisson::getFencedLock;
            default:
                return redisson::getLock;
        }
    }
}
