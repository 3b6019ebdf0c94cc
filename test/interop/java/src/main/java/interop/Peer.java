package interop;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UnsupportedEncodingException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URLDecoder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * A Java process with Redisson that executes one command a line, until its stdin ends. test/interop/redisson.ts
 * is the other end.
 *
 * <p>A command: {@code <id> <thread> <verb> <word> ...}, each word percent-encoded. It runs on the Java thread of that
 * name, after what was sent there before: so a thread of that name is one owner, and several may wait at once.
 *
 * <pre>
 * open client url lockWatchdogTimeout         a RedissonClient, kept as `client`
 * openFile client path                        the same as a configuration file says
 * call as target method argument ...          `target.method(...)`; an object that it returns is kept as `as`
 * readConfig path                             what a configuration file leads to: see ConfigReader
 * defaults                                    of configurations
 * threadId                                    of the thread that it runs on
 * sell lock client key pauseMs restMs         takes one from the number at `key` under `lock`, until it is 0; how many
 * sellInside semaphore client key pauseMs restMs leaseMs
 *                                             the same with one permit each; how many, and the most that were inside
 * </pre>
 *
 * <p>An argument of a call is a letter and its text: {@code i5} int, {@code l5} long, {@code stext} String, {@code u}
 * TimeUnit.MILLISECONDS, {@code d5} Duration in ms, {@code aname,name} an array of locks, {@code ctext,text} a
 * collection of strings, each percent-encoded once more. Methods are found by reflection, so that this compiles with every
 * version of Redisson, and one that lacks a method replies NoSuchMethodException.
 *
 * <p>The reply is one line of JSON: {@code {"id":1,"value":...}} or {@code {"id":1,"error":"class","message":"..."}}.
 */
public final class Peer {
    private static final PrintStream OUT = System.out;

    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        new Peer().serve();
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        say("{\"id\":0,\"value\":" + json(Redisson.class.getPackage().getImplementationVersion()) + "}");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = decode(words[i]);
            }
            threads.computeIfAbsent(words[1], Peer::newThread).execute(() -> reply(words));
        }
        Runtime.getRuntime().halt(0); // whoever drives us is gone: hold on to nothing, release nothing
    }

    private static ExecutorService newThread(String name) {
        return Executors.newSingleThreadExecutor(task -> new Thread(task, name));
    }

    private void reply(String[] words) {
        String start = "{\"id\":" + words[0];
        try {
            say(start + ",\"value\":" + json(run(words[2], Arrays.asList(words).subList(3, words.length))) + "}");
        } catch (InvocationTargetException e) {
            say(start + error(e.getCause()));
        } catch (Throwable e) {
            say(start + error(e));
        }
    }

    private static String error(Throwable e) {
        StringBuilder message = new StringBuilder(String.valueOf(e.getMessage()));
        for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
            message.append(", because of ").append(cause);
        }
        return ",\"error\":" + json(e.getClass().getName()) + ",\"message\":" + json(message.toString()) + "}";
    }

    private static void say(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    private Object run(String verb, List<String> words) throws Exception {
        switch (verb) {
            case "open":
                objects.put(words.get(0), open(words.get(1), Long.parseLong(words.get(2))));
                return null;
            case "openFile":
                objects.put(words.get(0), Redisson.create(Config.fromYAML(new File(words.get(1)))));
                return null;
            case "call":
                return call(words.get(0), words.get(1), words.get(2), words.subList(3, words.size()));
            case "readConfig":
                return ConfigReader.read(words.get(0));
            case "defaults":
                return ConfigReader.defaults();
            case "threadId":
                return Thread.currentThread().getId();
            case "sell":
                RedissonClient client = (RedissonClient) object(words.get(1));
                return sell((RLock) object(words.get(0)), client.getBucket(words.get(2)),
                        Long.parseLong(words.get(3)), Long.parseLong(words.get(4)));
            case "sellInside":
                return sellInside(object(words.get(0)), (RedissonClient) object(words.get(1)), words.get(2),
                        Long.parseLong(words.get(3)), Long.parseLong(words.get(4)), Long.parseLong(words.get(5)));
            default:
                throw new IllegalArgumentException("no such verb: " + verb);
        }
    }

    private static RedissonClient open(String url, long lockWatchdogTimeout) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setLockWatchdogTimeout(lockWatchdogTimeout);
        config.setThreads(4);
        config.setNettyThreads(4);
        config.useSingleServer()
                .setAddress(url)
                .setConnectionMinimumIdleSize(2)
                .setConnectionPoolSize(16)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(8);
        return Redisson.create(config);
    }

    private Object call(String as, String target, String method, List<String> arguments) throws Exception {
        Object value = invoke(object(target), method, arguments);
        if (value != null && !isPlain(value)) {
            objects.put(as, value);
            return null;
        }
        return value;
    }

    private Object invoke(Object target, String name, List<String> arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && fits(method.getParameterTypes(), arguments)) {
                Object[] values = new Object[arguments.size()];
                for (int i = 0; i < values.length; i++) {
                    values[i] = value(arguments.get(i));
                }
                return method.invoke(target, values);
            }
        }
        throw new NoSuchMethodException(target.getClass().getSimpleName() + "." + name + arguments);
    }

    private boolean fits(Class<?>[] types, List<String> arguments) {
        if (types.length != arguments.size()) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            char letter = arguments.get(i).charAt(0);
            boolean fits = letter == 'i' ? types[i] == int.class
                    : letter == 'l' ? types[i] == long.class
                    : types[i].isInstance(value(arguments.get(i)));
            if (!fits) {
                return false;
            }
        }
        return true;
    }

    private Object value(String argument) {
        String text = argument.substring(1);
        switch (argument.charAt(0)) {
            case 'i':
                return Integer.valueOf(text);
            case 'l':
                return Long.valueOf(text);
            case 's':
                return text;
            case 'u':
                return TimeUnit.MILLISECONDS;
            case 'd':
                return Duration.ofMillis(Long.parseLong(text));
            case 'a':
                List<RLock> locks = new ArrayList<>();
                for (String name : text.split(",")) {
                    locks.add((RLock) object(name));
                }
                return locks.toArray(new RLock[0]);
            case 'c':
                List<String> texts = new ArrayList<>();
                for (String word : text.split(",", -1)) {
                    texts.add(decode(word));
                }
                return texts;
            default:
                throw new IllegalArgumentException("no such kind of argument: " + argument);
        }
    }

    private static String decode(String word) {
        try {
            return URLDecoder.decode(word, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }

    private Object object(String name) {
        Object object = objects.get(name);
        if (object == null) {
            throw new IllegalArgumentException("nothing is kept as " + name);
        }
        return object;
    }

    private static int sell(RLock lock, RBucket<String> bucket, long pauseMs, long restMs) throws Exception {
        for (int sold = 0; ; sold++) {
            lock.lock();
            try {
                int left = Integer.parseInt(bucket.get());
                if (left == 0) {
                    return sold;
                }
                Thread.sleep(pauseMs);
                bucket.set(String.valueOf(left - 1));
            } finally {
                lock.unlock();
            }
            Thread.sleep(restMs);
        }
    }

    private static List<Long> sellInside(Object semaphore, RedissonClient client, String key, long pauseMs, long restMs,
            long leaseMs) throws Exception {
        RAtomicLong stock = client.getAtomicLong(key);
        RAtomicLong inside = client.getAtomicLong(key + ":inside");
        long most = 0;
        for (long sold = 0; ; sold++) {
            String permit = enter(semaphore, leaseMs);
            try {
                most = Math.max(most, inside.incrementAndGet());
                boolean isSold = stock.decrementAndGet() >= 0;
                Thread.sleep(pauseMs);
                inside.decrementAndGet();
                if (!isSold) {
                    return Arrays.asList(sold, most);
                }
            } finally {
                leave(semaphore, permit);
            }
            Thread.sleep(restMs);
        }
    }

    private static String enter(Object semaphore, long leaseMs) throws InterruptedException {
        if (semaphore instanceof RPermitExpirableSemaphore) {
            return ((RPermitExpirableSemaphore) semaphore).acquire(leaseMs, TimeUnit.MILLISECONDS);
        }
        ((RSemaphore) semaphore).acquire();
        return null;
    }

    private static void leave(Object semaphore, String permit) {
        if (permit == null) {
            ((RSemaphore) semaphore).release();
        } else {
            ((RPermitExpirableSemaphore) semaphore).release(permit);
        }
    }

    private static boolean isPlain(Object value) {
        return value instanceof Boolean || value instanceof Number || value instanceof String || value instanceof Collection;
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return String.valueOf(value);
        }
        if (value instanceof Collection) {
            StringBuilder list = new StringBuilder("[");
            for (Object element : (Collection<?>) value) {
                list.append(list.length() > 1 ? "," : "").append(json(element));
            }
            return list.append("]").toString();
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : String.valueOf(value).toCharArray()) {
            boolean isPlain = c >= ' ' && c < 127 && c != '"' && c != '\\';
            text.append(isPlain ? String.valueOf(c) : String.format("\\u%04x", (int) c));
        }
        return text.append("\"").toString();
    }
}
