import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

/** Streams' word count in two instances of a streams group, of which one is killed and started again. */
public final class StreamsGroups implements Kit.Feature {
    private static final int LINES = 300;

    private static KafkaStreams instance(String topic, String folder) {
        var builder = new StreamsBuilder();
        builder.<String, String>stream(topic).flatMapValues(line -> List.of(line.split(" "))).groupBy((key, word) -> word).count().toStream()
            .to(topic + "-out", Produced.with(Serdes.String(), Serdes.Long()));
        var settings = new Properties();
        settings.putAll(Kit.plain(
            "application.id", topic, "group.protocol", "streams", "processing.guarantee", "exactly_once_v2", "commit.interval.ms", 200,
            "replication.factor", 3, "statestore.cache.max.bytes", 0, "state.dir", folder, "default.key.serde", Serdes.StringSerde.class,
            "default.value.serde", Serdes.StringSerde.class, "auto.offset.reset", "earliest"));
        return new KafkaStreams(builder.build(), settings);
    }

    /** An instance in a process of its own: topic, state directory. It runs until it is killed. */
    public static void main(String[] arguments) throws Exception {
        instance(arguments[0], arguments[1]).start();
        Thread.currentThread().join();
    }

    private static Process start(String topic, Path folder) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        var command = List.of(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "StreamsGroups", topic, folder.toString());
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(new File(folder + ".log")).start();
    }

    private static void produce(String topic) {
        try (var producer = Kit.producer(Kit.plain())) {
            for (int i = 0; i < LINES; i++) producer.send(new ProducerRecord<>(topic, i % 4, null, Kit.bytes("all streams lead to " + (i % 3 == 0 ? "kafka" : "weir"))));
        }
    }

    private static StreamsGroupDescription describe(Admin admin, String topic) throws Exception {
        return Kit.done(admin.describeStreamsGroups(List.of(topic)).all()).get(topic);
    }

    @Override
    public void play(String topic) throws Exception {
        try (var admin = Admin.create(Kit.plain())) {
            var group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            var entries = List.of(new ConfigEntry("streams.session.timeout.ms", "6000"), new ConfigEntry("streams.heartbeat.interval.ms", "1000"));
            Kit.done(admin.incrementalAlterConfigs(Map.of(group, entries.stream().map(e -> new AlterConfigOp(e, AlterConfigOp.OpType.SET)).toList())).all());
            count(admin, topic);
            Kit.until(() -> describe(admin, topic).groupState() == GroupState.EMPTY, "the empty group");
            var listed = Kit.done(admin.listGroups(ListGroupsOptions.forStreamsGroups()).all()).stream().filter(g -> g.groupId().equals(topic)).toList();
            Kit.equal(listed.size() + " " + listed.get(0).type().map(Object::toString).orElse("-"), "1 Streams");
            var offsets = Kit.done(admin.listStreamsGroupOffsets(Map.of(topic, new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata(topic));
            Kit.equal(offsets.entrySet().stream().filter(e -> e.getKey().topic().equals(topic)).mapToLong(e -> e.getValue().offset()).filter(offset -> offset > 0).count(), 4L);
            Kit.done(admin.deleteStreamsGroups(List.of(topic)).all());
        }
    }

    private static void count(Admin admin, String topic) throws Exception {
        Path folder = Files.createTempDirectory("streams-group");
        Map<String, Long> half = Map.of("all", 300L, "streams", 300L, "lead", 300L, "to", 300L, "kafka", 100L, "weir", 200L);
        Map<String, Long> whole = new HashMap<>();
        half.forEach((word, count) -> whole.put(word, 2 * count));
        Map<String, Long> found = new HashMap<>();
        List<String> repeated = new ArrayList<>();
        produce(topic);
        var killed = start(topic, folder.resolve("a"));
        try (var mine = instance(topic, folder.resolve("b").toString());
            var reader = Kit.consumer(Kit.plain("isolation.level", "read_committed"))) {
            mine.start();
            var partitions = List.of(0, 1, 2, 3).stream().map(p -> new TopicPartition(topic + "-out", p)).toList();
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
            var counts = new LongDeserializer();
            Kit.Condition read = () -> {
                reader.poll(Duration.ofMillis(200)).forEach(r -> {
                    long count = counts.deserialize(r.topic(), r.value());
                    Long before = found.put(Kit.text(r.key()), count);
                    if (count != (before == null ? 0 : before) + 1) repeated.add(Kit.text(r.key()) + " " + before + " -> " + count);
                });
                return true;
            };
            Kit.until(() -> read.holds() && found.equals(half), "the counts of the first lines");
            Kit.until(() -> describe(admin, topic).members().size() == 2 && describe(admin, topic).groupState() == GroupState.STABLE, "two members");
            Kit.equal(describe(admin, topic).members().stream().map(m -> m.assignment().activeTasks().stream().mapToInt(t -> t.partitions().size()).sum()).sorted().toList(), List.of(4, 4));
            produce(topic);
            Kit.until(() -> read.holds() && found.getOrDefault("all", 0L) > 310, "some of the other counts");
            killed.destroyForcibly().waitFor();
            killed = start(topic, folder.resolve("a"));
            Kit.until(() -> read.holds() && found.equals(whole), "the counts of all lines");
            Kit.until(() -> describe(admin, topic).members().size() == 2 && describe(admin, topic).groupState() == GroupState.STABLE, "two members again");
        } finally {
            killed.destroyForcibly().waitFor();
        }
        Kit.equal(repeated, List.of());
    }
}
