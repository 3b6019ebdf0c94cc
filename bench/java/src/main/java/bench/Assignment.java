package bench;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The assignment of src/work.ts. Its JSON is flat. */
final class Assignment {
    private final String json;

    Assignment(String json) {
        this.json = json;
    }

    String text(String key) {
        return find(key, "\"([^\"]*)\"");
    }

    int number(String key) {
        return Integer.parseInt(find(key, "(\\d+)"));
    }

    boolean is(String key) {
        return find(key, "(true|false)").equals("true");
    }

    private String find(String key, String value) {
        Matcher matcher = Pattern.compile("\"" + key + "\":" + value).matcher(json);
        if (!matcher.find()) throw new IllegalArgumentException("no " + key + " in " + json);
        return matcher.group(1);
    }
}
