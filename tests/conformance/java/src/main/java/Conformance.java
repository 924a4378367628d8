import com.aliyun.openservices.log.common.FastLog;
import com.aliyun.openservices.log.common.FastLogContent;
import com.aliyun.openservices.log.common.FastLogGroup;
import com.aliyun.openservices.log.common.LogGroupData;
import com.aliyun.openservices.loghub.client.ClientWorker;
import com.aliyun.openservices.loghub.client.ILogHubCheckPointTracker;
import com.aliyun.openservices.loghub.client.config.LogHubConfig;
import com.aliyun.openservices.loghub.client.exceptions.LogHubCheckPointException;
import com.aliyun.openservices.loghub.client.interfaces.ILogHubProcessor;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The vendor's Java consumer library, unmodified. Arguments: project, logstore, group, consumer.
 * Prints `log SHARD KEY NUMBER`; leaves when standard input closes. It has no proxy setting and
 * takes no port, so a hosts file leads it to the emulator on port 80.
 */
public class Conformance {
    static class Processor implements ILogHubProcessor {
        private int shard;

        @Override
        public void initialize(int shardId) {
            shard = shardId;
        }

        @Override
        public String process(List<LogGroupData> groups, ILogHubCheckPointTracker tracker) {
            for (LogGroupData data : groups) {
                FastLogGroup group = data.GetFastLogGroup();
                for (int i = 0; i < group.getLogsCount(); i++) {
                    FastLog log = group.getLogs(i);
                    Map<String, String> pairs = new HashMap<>();
                    for (int j = 0; j < log.getContentsCount(); j++) {
                        FastLogContent content = log.getContents(j);
                        pairs.put(content.getKey(), content.getValue());
                    }
                    System.out.println("log " + shard + " " + pairs.get("key") + " " + pairs.get("n"));
                }
            }
            save(tracker);
            return null;
        }

        @Override
        public void shutdown(ILogHubCheckPointTracker tracker) {
            save(tracker);
        }

        private void save(ILogHubCheckPointTracker tracker) {
            try {
                tracker.saveCheckPoint(true);
            } catch (LogHubCheckPointException e) {
                System.err.println(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        LogHubConfig config = new LogHubConfig(args[2], args[3], "sls.emu", args[0], args[1],
                "emulator-key", "emulator-secret", LogHubConfig.ConsumePosition.BEGIN_CURSOR);
        config.setHeartBeatIntervalMillis(1000);
        config.setTimeoutInSeconds(6);
        config.setConsumeInOrder(true);
        ClientWorker worker = new ClientWorker(Processor::new, config);
        Thread thread = new Thread(worker);
        thread.start();
        while (System.in.read() >= 0) {
        }
        worker.shutdown();
        thread.join(20000);
        System.out.println("left");
        System.exit(0);
    }
}
