import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The members of one share group read a topic until each of its records was delivered and acknowledged.
 *
 * <p>Arguments: bootstrap servers, topic (also the name of the group), number of records, number of members. Prints the seconds from the creation of
 * the members to the last acknowledgement, the numbers of different records and of deliveries, and the CPU seconds of this process.
 */
public final class ShareRate {
    private static final long STALLED_MS = 120_000;
    private static final Map<Integer, BitSet> seen = new HashMap<>();
    private static final AtomicLong deliveries = new AtomicLong();
    private static volatile long lastNew = System.currentTimeMillis();
    private static long unique = 0;

    private static synchronized void note(Iterable<? extends org.apache.kafka.clients.consumer.ConsumerRecord<byte[], byte[]>> records) {
        for (var r : records) {
            deliveries.incrementAndGet();
            var bits = seen.computeIfAbsent(r.partition(), p -> new BitSet());
            if (!bits.get((int) r.offset())) {
                bits.set((int) r.offset());
                unique++;
                lastNew = System.currentTimeMillis();
            }
        }
    }

    private static synchronized long unique() {
        return unique;
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        long records = Long.parseLong(arguments[2]);
        int members = Integer.parseInt(arguments[3]);
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (var admin = Admin.create(settings)) {
            var group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
        settings.put("group.id", topic);
        List<Thread> threads = new ArrayList<>();
        long begun = System.nanoTime();
        for (int i = 0; i < members; i++) {
            var thread =
                new Thread(
                    () -> {
                        try (var consumer =
                            new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                            consumer.subscribe(List.of(topic));
                            while (unique() < records && System.currentTimeMillis() - lastNew < STALLED_MS) {
                                // The poll acknowledges the records of the one before.
                                note(consumer.poll(Duration.ofMillis(200)));
                            }
                            consumer.commitSync();
                        }
                    });
            threads.add(thread);
            thread.start();
        }
        for (var thread : threads) thread.join();
        double seconds = (System.nanoTime() - begun) / 1e9;
        var os = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        System.out.printf("%.3f %d %d %.3f%n", seconds, unique(), deliveries.get(), os.getProcessCpuTime() / 1e9);
    }
}
