import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** How these programs write, read and judge. Values are strings unless bytes are the matter. */
final class Kit {
    static final String PREFIX = System.getenv("SCENE_PREFIX");
    static final long FIRST_MS = 1_700_000_000_000L;
    static final long SECONDS_MAX = 60;

    interface Feature {
        void play(String topic) throws Exception;
    }

    /** The client does not have the feature. */
    static final class Lacks extends RuntimeException {
        Lacks(String why) {
            super(why);
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static Map<String, Object> with(Map<String, Object> settings, Object... more) {
        Map<String, Object> out = new HashMap<>(settings);
        for (int i = 0; i < more.length; i += 2) out.put((String) more[i], more[i + 1]);
        return out;
    }

    static Map<String, Object> plain(Object... more) {
        return with(Map.of("bootstrap.servers", System.getenv("SCENE_BOOTSTRAP")), more);
    }

    static Map<String, Object> secured(String user, String password, Object... more) {
        String login = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user + "\" password=\"" + password + "\";";
        return with(
            Map.of("bootstrap.servers", System.getenv("SCENE_SECURED"), "security.protocol", "SASL_SSL", "sasl.mechanism", "SCRAM-SHA-512",
                "sasl.jaas.config", login, "ssl.truststore.type", "PEM", "ssl.truststore.location", System.getenv("SCENE_CA")),
            more);
    }

    /** A token that the client fetches itself, as from an identity provider (KIP-768). */
    static Map<String, Object> bearer(String path, Object... more) {
        String url = System.getenv("SCENE_ISSUER") + path;
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
        String login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"alice\" clientSecret=\"" + PASSWORD + "\";";
        return with(
            Map.of("bootstrap.servers", System.getenv("SCENE_SECURED"), "security.protocol", "SASL_SSL", "sasl.mechanism", "OAUTHBEARER",
                "sasl.login.callback.handler.class", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url", url, "sasl.jaas.config", login, "ssl.truststore.type", "PEM",
                "ssl.truststore.location", System.getenv("SCENE_CA")),
            more);
    }

    static Map<String, Object> certified(String user, Object... more) {
        return with(
            Map.of("bootstrap.servers", System.getenv("SCENE_MUTUAL"), "security.protocol", "SSL", "ssl.keystore.type", "PEM",
                "ssl.keystore.location", System.getenv("SCENE_" + user.toUpperCase()), "ssl.truststore.type", "PEM",
                "ssl.truststore.location", System.getenv("SCENE_CA")),
            more);
    }

    static final String PASSWORD = System.getenv("SCENE_PASSWORD");

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaConsumer<byte[], byte[]> grouped(String group, Object... more) {
        return consumer(with(plain("group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest"), more));
    }

    static Admin admin() {
        return Admin.create(plain());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] value) {
        return new String(value, StandardCharsets.UTF_8);
    }

    static List<String> numbers(int n) {
        return IntStream.range(0, n).mapToObj(String::valueOf).toList();
    }

    static List<String> values(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> text(r.value())).toList();
    }

    static ProducerRecord<byte[], byte[]> record(String topic, String value) {
        return new ProducerRecord<>(topic, 0, null, bytes(value));
    }

    /** Write and wait for each acknowledgement. */
    static void send(KafkaProducer<byte[], byte[]> producer, String topic, List<String> values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) sent.add(producer.send(record(topic, value)));
        producer.flush();
        for (Future<RecordMetadata> one : sent) done(one);
    }

    /** `count` records of partition 0 from an offset on, and no more than that. */
    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int count, String isolation, long offset) throws Exception {
        try (var consumer = consumer(plain("isolation.level", isolation, "enable.auto.commit", "false"))) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
            until(() -> {
                consumer.poll(Duration.ofMillis(200)).forEach(out::add);
                return out.size() >= count && consumer.position(partition) >= end;
            }, count + " records");
            equal(out.size(), count);
            return out;
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int count) throws Exception {
        return read(topic, count, "read_uncommitted", 0);
    }

    static List<ConsumerRecord<byte[], byte[]>> some(KafkaConsumer<byte[], byte[]> consumer, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
        until(() -> {
            consumer.poll(Duration.ofMillis(200)).forEach(out::add);
            return out.size() >= count;
        }, count + " records");
        return out;
    }

    static void until(Condition condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) throw new AssertionError("waited " + SECONDS_MAX + " s for " + what);
            Thread.sleep(20);
        }
    }

    static void equal(Object found, Object wanted) {
        if (!found.equals(wanted)) {
            String text = String.valueOf(found);
            throw new AssertionError(text.substring(0, Math.min(200, text.length())) + " instead of " + wanted);
        }
    }

    /** The result, or the error itself rather than its wrapping. */
    static <T> T done(Future<T> future) throws Exception {
        try {
            return future.get(SECONDS_MAX, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Exception cause) throw cause;
            throw e;
        }
    }

    /** That it is rejected with this error. */
    static void rejected(Class<? extends Exception> how, Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (Exception e) {
            if (how.isInstance(e)) return;
            throw e;
        }
        throw new AssertionError("not rejected");
    }

    /** A member of a group; `seen` are the values it was brought, `lost` the partitions it gave up. */
    static final class Member implements AutoCloseable {
        final KafkaConsumer<byte[], byte[]> consumer;
        final TreeSet<String> seen = new TreeSet<>();
        final TreeSet<Integer> lost = new TreeSet<>();

        Member(String group, String topic, Object... settings) {
            consumer = consumer(with(plain("group.id", group, "auto.offset.reset", "earliest"), settings));
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) {
                    partitions.forEach(p -> lost.add(p.partition()));
                }

                @Override
                public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) {}
            });
        }

        TreeSet<Integer> owned() {
            consumer.poll(Duration.ofMillis(100)).forEach(r -> seen.add(text(r.value())));
            TreeSet<Integer> out = new TreeSet<>();
            consumer.assignment().forEach(p -> out.add(p.partition()));
            return out;
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
