package conformance;

import com.aliyun.openservices.log.Client;
import com.aliyun.openservices.log.common.Consts;
import com.aliyun.openservices.log.common.LogGroupData;
import com.aliyun.openservices.log.common.LogItem;
import com.aliyun.openservices.log.common.LogStore;
import com.aliyun.openservices.log.common.Shard;
import com.aliyun.openservices.log.exception.LogException;
import com.aliyun.openservices.log.http.client.ClientConfiguration;
import com.aliyun.openservices.log.http.signer.SignVersion;
import com.aliyun.openservices.log.request.PullLogsRequest;
import com.aliyun.openservices.log.request.PutLogsRequest;
import com.aliyun.openservices.log.response.PullLogsResponse;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The vendor's client, one command a line; conformance/program.py lists them. */
final class Talk {
    private static final int KEYS = 8;
    private static final int LOGS_A_GROUP = 3;
    private static final int GROUPS_A_PULL = 10;
    private static final int TRIES = 60;
    private static final int PAUSE_MS = 250;

    private final Client client;
    private final String project;
    private final String text;
    private final Map<String, Integer> next = new HashMap<>();
    private int retries;

    private Talk(Flags flags) {
        project = flags.of("project");
        text = flags.of("text");
        ClientConfiguration configuration = new ClientConfiguration();
        if (flags.number("proxy-port") != 0) {
            configuration.setProxyHost("127.0.0.1");
            configuration.setProxyPort(flags.number("proxy-port"));
        }
        configuration.setSignatureVersion(SignVersion.valueOf(flags.of("sign").toUpperCase(Locale.ROOT)));
        configuration.setRegion("emulated");
        client = new Client(
                flags.of("endpoint"),
                Flags.environment("ALIBABA_CLOUD_ACCESS_KEY_ID"),
                Flags.environment("ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
                configuration);
    }

    static void run(Flags flags) throws Exception {
        Talk talk = new Talk(flags);
        Out.event("started");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                talk.obey(line.split(" "));
                Out.event("done", "retries", talk.retries);
            } catch (LogException refused) {
                Out.event("error", "status", refused.GetHttpCode(), "code", refused.GetErrorCode(),
                        "message", refused.GetErrorMessage());
            }
        }
        Out.event("left");
        System.exit(0);
    }

    private void obey(String[] words) throws LogException, InterruptedException {
        String store = words[1];
        switch (words[0]) {
            case "project":
                client.CreateProject(store, "");
                break;
            case "store":
                client.CreateLogStore(project, new LogStore(store, 1, Integer.parseInt(words[2])));
                break;
            case "put":
                put(store, words[2], Integer.parseInt(words[3]), words[4]);
                break;
            case "read":
                read(store, words[2], words[3]);
                break;
            case "split":
                client.SplitShard(project, store, Integer.parseInt(words[2]), words[3]);
                break;
            case "merge":
                client.MergeShards(project, store, Integer.parseInt(words[2]));
                break;
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private void put(String store, String prefix, int count, String kind)
            throws LogException, InterruptedException {
        for (int done = 0; done < count; done += LOGS_A_GROUP) {
            for (int key = 0; key < KEYS; key++) {
                String name = prefix + "-" + key;
                int first = next.getOrDefault(store + " " + name, 0);
                int size = Math.min(LOGS_A_GROUP, count - done);
                List<LogItem> logs = new ArrayList<>();
                for (int seq = first; seq < first + size; seq++) {
                    LogItem log = new LogItem((int) (System.currentTimeMillis() / 1000));
                    log.PushBack("key", name);
                    log.PushBack("seq", String.valueOf(seq));
                    log.PushBack("text", text);
                    logs.add(log);
                }
                String hash = Integer.toHexString(2 * key) + "0".repeat(31);
                PutLogsRequest request = new PutLogsRequest(project, store, prefix, "127.0.0.1", logs, hash);
                request.setCompressType(compression(kind));
                putOnce(request);
                next.put(store + " " + name, first + size);
            }
        }
    }

    /** Puts one group, again after a failure that is not a refusal. */
    private void putOnce(PutLogsRequest request) throws LogException, InterruptedException {
        for (int tries = 1; ; tries++) {
            try {
                client.PutLogs(request);
                return;
            } catch (LogException failed) {
                boolean refused = failed.GetHttpCode() >= 400 && failed.GetHttpCode() < 500;
                if (refused || tries == TRIES) {
                    throw failed;
                }
                retries++;
                Thread.sleep(PAUSE_MS);
            }
        }
    }

    /** Tells what stands between `from` and the end, shard by shard. */
    private void read(String store, String from, String kind) throws LogException {
        for (Shard shard : client.ListShard(project, store).GetShards()) {
            int id = shard.GetShardId();
            String cursor = cursor(store, id, from);
            String end = cursor(store, id, "end");
            while (!cursor.equals(end)) {
                PullLogsRequest request = new PullLogsRequest(project, store, id, GROUPS_A_PULL, cursor);
                request.setCompressType(compression(kind));
                PullLogsResponse page = client.pullLogs(request);
                for (LogGroupData group : page.getLogGroups()) {
                    Out.logs(id, group);
                }
                cursor = page.getNextCursor();
            }
        }
    }

    private String cursor(String store, int shard, String from) throws LogException {
        switch (from) {
            case "begin":
                return client.GetCursor(project, store, shard, Consts.CursorMode.BEGIN).GetCursor();
            case "end":
                return client.GetCursor(project, store, shard, Consts.CursorMode.END).GetCursor();
            default:
                return client.GetCursor(project, store, shard, Long.parseLong(from)).GetCursor();
        }
    }

    private static Consts.CompressType compression(String kind) {
        return Consts.CompressType.valueOf(kind.toUpperCase(Locale.ROOT));
    }
}
