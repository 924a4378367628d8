package conformance;

import com.alibaba.fastjson.JSON;
import com.aliyun.openservices.log.common.FastLog;
import com.aliyun.openservices.log.common.FastLogContent;
import com.aliyun.openservices.log.common.FastLogGroup;
import com.aliyun.openservices.log.common.LogGroupData;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Map;

/** One JSON object a line on standard output, written at once. */
final class Out {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Out() {}

    /** Tells an event with its facts, given as name, value, name, value. */
    static void event(String name, Object... facts) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", name);
        for (int i = 0; i < facts.length; i += 2) {
            line.put((String) facts[i], facts[i + 1]);
        }
        line(line);
    }

    /** Tells every log of a group: its contents, the shard, topic and source, and when (microseconds). */
    static void logs(int shard, LogGroupData data) {
        FastLogGroup group = data.GetFastLogGroup();
        for (FastLog log : group.getLogs()) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("event", "log");
            for (FastLogContent content : log.getContents()) {
                line.put(content.getKey(), content.getValue());
            }
            line.put("shard", shard);
            line.put("topic", group.getTopic());
            line.put("source", group.getSource());
            line.put("at", ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
            line(line);
        }
    }

    private static synchronized void line(Map<String, Object> line) {
        OUT.println(JSON.toJSONString(line));
        OUT.flush();
    }
}
