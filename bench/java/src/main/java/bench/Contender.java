package bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import org.redisson.api.RedissonClient;

/** The Java version of src/contender.ts: a process controlled by its stdin, as described in src/work.ts. */
public final class Contender {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) throws Exception {
        Assignment assignment = new Assignment(args[args.length - 1]);
        Job job = open(assignment);
        say("\"is\":\"open\"");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order; (order = orders.readLine()) != null; ) {
            if (order.equals("start")) {
                job.start();
                say("\"is\":\"started\"");
            } else {
                say("\"is\":\"measured\"," + job.measure(Integer.parseInt(order.split(" ")[1])));
            }
        }
        System.exit(0);
    }

    private static Job open(Assignment assignment) {
        if (assignment.text("library").equals("zookeeper")) {
            return new Loops(new CuratorLocker(assignment.text("url")), assignment);
        }
        RedissonClient redisson = RedissonLocker.open(assignment);
        Locker locker = new RedissonLocker(redisson, assignment);
        switch (assignment.text("do")) {
            case "loop":
                return new Loops(locker, assignment);
            case "sell":
                return new Sale(locker, redisson, assignment);
            default:
                return new Holder(locker, assignment);
        }
    }

    static long cpuNanos() {
        return SYSTEM.getProcessCpuTime();
    }

    static void fail(Exception error) {
        error.printStackTrace();
        System.exit(1);
    }

    private static void say(String fields) {
        System.out.println("{" + fields + "}");
    }
}
