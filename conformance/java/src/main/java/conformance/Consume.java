package conformance;

import com.aliyun.openservices.log.common.LogGroupData;
import com.aliyun.openservices.loghub.client.ClientWorker;
import com.aliyun.openservices.loghub.client.ILogHubCheckPointTracker;
import com.aliyun.openservices.loghub.client.config.LogHubConfig;
import com.aliyun.openservices.loghub.client.exceptions.LogHubCheckPointException;
import com.aliyun.openservices.loghub.client.interfaces.ILogHubProcessor;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * The vendor's group consumer. It tells every log it is given and saves the checkpoint after each
 * batch; it leaves when standard input closes or on SIGTERM.
 *
 * <p>loghub-client-lib 0.6.41 can be told neither a proxy nor v4 nor a compression.
 */
final class Consume {
    private Consume() {}

    static void run(Flags flags) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        ClientWorker worker = new ClientWorker(Teller::new, config(flags));
        Thread thread = new Thread(() -> {
            worker.run();
            ended.countDown();
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            worker.shutdown();
            try {
                ended.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            Out.event("left");
        }));
        thread.start();
        Out.event("started");
        while (System.in.read() >= 0) {
            continue;
        }
        System.exit(0);
    }

    private static LogHubConfig config(Flags flags) {
        String from = flags.of("from");
        String group = flags.of("group");
        String consumer = flags.of("consumer");
        String project = flags.of("project");
        String store = flags.of("store");
        String endpoint = flags.of("endpoint");
        String id = Flags.environment("ALIBABA_CLOUD_ACCESS_KEY_ID");
        String secret = Flags.environment("ALIBABA_CLOUD_ACCESS_KEY_SECRET");
        LogHubConfig config;
        if (from.equals("begin") || from.equals("end")) {
            LogHubConfig.ConsumePosition position = from.equals("begin")
                    ? LogHubConfig.ConsumePosition.BEGIN_CURSOR
                    : LogHubConfig.ConsumePosition.END_CURSOR;
            config = new LogHubConfig(group, consumer, endpoint, project, store, id, secret, position);
        } else {
            config = new LogHubConfig(
                    group, consumer, endpoint, project, store, id, secret, Integer.parseInt(from));
        }
        config.setConsumeInOrder(Boolean.parseBoolean(flags.of("order")));
        config.setHeartBeatIntervalMillis(1000L * flags.number("heartbeat-s"));
        config.setTimeoutInSeconds(flags.number("timeout-s"));
        config.setFetchIntervalMillis(200);
        return config;
    }

    /** One for each shard. */
    private static final class Teller implements ILogHubProcessor {
        private int shard;

        @Override
        public void initialize(int shard) {
            this.shard = shard;
            Out.event("shard", "shard", shard);
        }

        @Override
        public String process(List<LogGroupData> groups, ILogHubCheckPointTracker tracker) {
            groups.forEach(group -> Out.logs(shard, group));
            save(tracker);
            return null;
        }

        @Override
        public void shutdown(ILogHubCheckPointTracker tracker) {
            save(tracker);
            Out.event("shard_gone", "shard", shard);
        }

        private void save(ILogHubCheckPointTracker tracker) {
            try {
                tracker.saveCheckPoint(true);
            } catch (LogHubCheckPointException refused) {
                Out.event("unsaved", "shard", shard, "message", refused.getMessage());
            }
        }
    }
}
