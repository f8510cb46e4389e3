import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;

/** Streams' word count, exactly once. */
final class Counting {
    static void streams(String topic) throws Exception {
        try (var producer = Kit.producer(Kit.plain())) {
            for (int i = 0; i < 300; i++) producer.send(new ProducerRecord<>(topic, i % 4, null, Kit.bytes("all streams lead to " + (i % 3 == 0 ? "kafka" : "weir"))));
        }
        Map<String, Long> wanted = Map.of("all", 300L, "streams", 300L, "lead", 300L, "to", 300L, "kafka", 100L, "weir", 200L);
        var builder = new StreamsBuilder();
        builder.<String, String>stream(topic).flatMapValues(line -> List.of(line.split(" "))).groupBy((key, word) -> word).count().toStream()
            .to(topic + "-out", Produced.with(Serdes.String(), Serdes.Long()));
        var settings = new Properties();
        settings.putAll(Kit.plain(
            "application.id", topic, "processing.guarantee", "exactly_once_v2", "commit.interval.ms", 200, "replication.factor", 3,
            "num.stream.threads", 2, "statestore.cache.max.bytes", 0, "state.dir", Files.createTempDirectory("streams").toString(),
            "default.key.serde", Serdes.StringSerde.class, "default.value.serde", Serdes.StringSerde.class, "auto.offset.reset", "earliest"));
        Map<String, Long> found = new HashMap<>();
        List<String> repeated = new ArrayList<>();
        try (var counting = new KafkaStreams(builder.build(), settings);
            var reader = Kit.consumer(Kit.plain("isolation.level", "read_committed"))) {
            counting.start();
            var partitions = List.of(0, 1, 2, 3).stream().map(p -> new TopicPartition(topic + "-out", p)).toList();
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
            var counts = new LongDeserializer();
            Kit.until(() -> {
                reader.poll(Duration.ofMillis(200)).forEach(r -> {
                    long count = counts.deserialize(r.topic(), r.value());
                    Long before = found.put(Kit.text(r.key()), count);
                    if (count != (before == null ? 0 : before) + 1) repeated.add(Kit.text(r.key()) + " " + before + " -> " + count);
                });
                return found.equals(wanted);
            }, "the counts");
        }
        Kit.equal(repeated, List.of());
    }
}
