package conformance;

import java.util.HashMap;
import java.util.Map;

/** Command line flags, each `--name value`. */
final class Flags {
    private final Map<String, String> given = new HashMap<>();

    Flags(String[] arguments, int from) {
        if ((arguments.length - from) % 2 != 0) {
            throw new IllegalArgumentException("a flag has no value; write --name value");
        }
        for (int i = from; i < arguments.length; i += 2) {
            given.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String of(String name) {
        String value = given.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    int number(String name) {
        return Integer.parseInt(of(name));
    }

    static String environment(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is not set");
        }
        return value;
    }
}
