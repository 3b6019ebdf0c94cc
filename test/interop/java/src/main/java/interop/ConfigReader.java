package interop;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What Redisson makes of a configuration. Getters are found by reflection, so that this compiles with every version. */
final class ConfigReader {
    private static final String[] MODES = {"MasterSlave", "Single", "Sentinel", "Cluster", "Replicated"};

    private ConfigReader() {
    }

    /**
     * Each value that the file leads to, as {@code key=value} or {@code singleServerConfig.key=value}; throws if the file
     * cannot be read. Where there are clients that connect later, one is made: {@code create=...} is why it cannot be.
     */
    static List<String> read(String path) throws Exception {
        Config config = Config.fromYAML(new File(path));
        List<String> values = new ArrayList<>();
        addValues(values, "", config);
        for (String mode : MODES) {
            Method getter = find(0, "get" + mode + "ServersConfig", "get" + mode + "ServerConfig");
            getter.setAccessible(true);
            Object section = getter.invoke(config);
            if (section != null) {
                addValues(values, nameOf(mode), section);
            }
        }
        Method setLazy = find(1, "setLazyInitialization");
        if (setLazy != null) {
            setLazy.invoke(config, true);
            config.setThreads(1); // starts sooner
            config.setNettyThreads(1);
            create(config, values);
        }
        return values;
    }

    /** The same for new configurations, one of each mode. */
    static List<String> defaults() throws Exception {
        List<String> values = new ArrayList<>();
        addValues(values, "", new Config());
        for (String mode : MODES) {
            Method use = find(0, "use" + mode + "Servers", "use" + mode + "Server");
            addValues(values, nameOf(mode), use.invoke(new Config()));
        }
        return values;
    }

    private static void create(Config config, List<String> values) {
        try {
            RedissonClient client = Redisson.create(config);
            client.shutdown();
        } catch (Exception e) {
            values.add("create=" + e.getClass().getName() + ": " + e.getMessage());
        }
    }

    private static String nameOf(String mode) {
        return mode.substring(0, 1).toLowerCase() + mode.substring(1) + (mode.equals("Single") ? "ServerConfig." : "ServersConfig.");
    }

    private static Method find(int parameters, String... names) {
        for (Method method : Config.class.getDeclaredMethods()) {
            if (method.getParameterCount() == parameters && Arrays.asList(names).contains(method.getName())) {
                return method;
            }
        }
        return null;
    }

    private static void addValues(List<String> values, String prefix, Object object) throws IllegalAccessException {
        for (Method method : object.getClass().getMethods()) {
            String name = method.getName().replaceFirst("^(get|is)(?=[A-Z])", "");
            boolean isGetter = method.getParameterCount() == 0 && !Modifier.isStatic(method.getModifiers());
            if (!isGetter || name.equals(method.getName()) || name.equals("Class") || method.isBridge()) {
                continue;
            }
            try {
                String key = Character.toLowerCase(name.charAt(0)) + name.substring(1);
                values.add(prefix + key + "=" + text(method.invoke(object)));
            } catch (InvocationTargetException e) {
                // not the value of a key
            }
        }
    }

    private static String text(Object value) {
        if (value instanceof Object[]) {
            return text(Arrays.asList((Object[]) value));
        }
        if (value instanceof Collection) {
            return ((Collection<?>) value).stream().map(ConfigReader::text).sorted().collect(Collectors.joining(","));
        }
        boolean isPlain = value == null || value instanceof Boolean || value instanceof Number || value instanceof String
                || value instanceof Enum || value instanceof URL;
        return isPlain ? String.valueOf(value) : value.getClass().getSimpleName();
    }
}
