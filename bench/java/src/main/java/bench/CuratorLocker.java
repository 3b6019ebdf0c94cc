package bench;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

final class CuratorLocker implements Locker {
    private final CuratorFramework curator;

    CuratorLocker(String address) {
        curator = CuratorFrameworkFactory.newClient(address, new ExponentialBackoffRetry(100, 5));
        curator.start();
    }

    @Override
    public Release acquire(String name) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(curator, "/" + name.replace(':', '-'));
        mutex.acquire();
        return mutex::release;
    }
}
