import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;

/** Producing and transactions. */
final class Produce {
    static Kit.Feature acks(String acks) {
        return topic -> {
            try (var producer = Kit.producer(Kit.plain("acks", acks, "enable.idempotence", acks.equals("all")))) {
                Kit.send(producer, topic, Kit.numbers(100));
            }
            Kit.equal(Kit.values(Kit.read(topic, 100)), Kit.numbers(100));
        };
    }

    static Kit.Feature codec(String codec) {
        return topic -> {
            List<String> wanted = Kit.numbers(500).stream().map(v -> v.repeat(20)).toList();
            try (var producer = Kit.producer(Kit.plain("compression.type", codec, "linger.ms", 50))) {
                Kit.send(producer, topic, wanted);
            }
            Kit.equal(Kit.values(Kit.read(topic, 500)), wanted);
        };
    }

    static void headers(String topic) throws Exception {
        var record = Kit.record(topic, "v");
        record.headers().add("a", Kit.bytes("1")).add("a", Kit.bytes("2")).add("empty", new byte[0]);
        try (var producer = Kit.producer(Kit.plain())) {
            Kit.done(producer.send(record));
        }
        List<String> found = new ArrayList<>();
        for (Header h : Kit.read(topic, 1).get(0).headers()) found.add(h.key() + "=" + Kit.text(h.value()));
        Kit.equal(found, List.of("a=1", "a=2", "empty="));
    }

    /** Each record is acknowledged before the next one is sent: a decision needs a message that is stored. Key, value (null: none), headers. */
    private static void through(String front, String[]... written) throws Exception {
        try (var producer = Kit.producer(Kit.plain("acks", "all"))) {
            for (String[] w : written) {
                var record = new ProducerRecord<>(front, 0, Kit.bytes(w[0]), w[1] == null ? null : Kit.bytes(w[1]));
                for (int i = 2; i < w.length; i += 2) record.headers().add(w[i], Kit.bytes(w[i + 1]));
                Kit.done(producer.send(record));
            }
        }
    }

    static void delayed(String topic) throws Exception {
        long began = System.currentTimeMillis();
        through(
                topic + ".delay",
                new String[] {"a", "third", "x-deliver-at-ms", "" + (began + 6_000)},
                new String[] {"b", "cancelled", "x-deliver-at-ms", "" + (began + 5_500)},
                new String[] {"c", "second", "x-delay-ms", "3000"},
                new String[] {"d", "first", "x-delay-ms", "0"},
                new String[] {"b", null});
        Kit.equal(texts(topic, 3), List.of("first", "second", "third"));
        Kit.equal(System.currentTimeMillis() - began >= 6_000, true);
    }

    static void half(String topic) throws Exception {
        through(
                topic + ".half",
                new String[] {"k", "order 1", "x-half-id", "1"},
                new String[] {"k", "order 2", "x-half-id", "2"},
                new String[] {"k", "order 3", "x-half-id", "3"},
                new String[] {"k", null, "x-half-id", "3", "x-half", "commit"},
                new String[] {"k", null, "x-half-id", "2", "x-half", "rollback"},
                new String[] {"k", null, "x-half-id", "1", "x-half", "commit"});
        Kit.equal(texts(topic, 2), List.of("order 3", "order 1"));
    }

    static void routes(String topic) throws Exception {
        String[][] written = new String[12][];
        for (int n = 0; n < written.length; n++) {
            String key = List.of("paid", "eu.berlin", "us").get(n % 3);
            written[n] = new String[] {key, "v" + n, "fraud", n % 2 == 0 ? "yes" : "no", "n", "" + n};
        }
        through(topic, written);
        var routed = Map.of("-key", List.of(0, 3, 6, 9), "-pattern", List.of(1, 4, 7, 10), "-headers", List.of(0, 2, 4, 6, 8, 10));
        for (var target : routed.entrySet()) {
            List<List<String>> found = new ArrayList<>();
            for (var r : Kit.read(topic + target.getKey(), target.getValue().size())) {
                List<String> one = new ArrayList<>(List.of(Kit.text(r.key()), Kit.text(r.value())));
                for (Header h : r.headers()) one.addAll(List.of(h.key(), Kit.text(h.value())));
                found.add(one);
            }
            Kit.equal(found, target.getValue().stream().map(n -> List.of(written[n])).toList());
        }
    }

    private static List<String> texts(String topic, int count) throws Exception {
        List<String> out = new ArrayList<>();
        for (var r : Kit.read(topic, count)) out.add(Kit.text(r.value()));
        return out;
    }

    static void nulls(String topic) throws Exception {
        byte[][][] wanted = {{null, Kit.bytes("v")}, {Kit.bytes("k"), null}, {new byte[0], new byte[0]}};
        try (var producer = Kit.producer(Kit.plain())) {
            for (byte[][] one : wanted) Kit.done(producer.send(new ProducerRecord<>(topic, 0, one[0], one[1])));
        }
        var found = Kit.read(topic, 3).stream().map(r -> new byte[][] {r.key(), r.value()}).toArray(byte[][][]::new);
        Kit.equal(Arrays.deepEquals(found, wanted), true);
    }

    static void big(String topic) throws Exception {
        byte[] wanted = new byte[1_000_000];
        for (int i = 0; i < wanted.length; i++) wanted[i] = (byte) (i % 251);
        try (var producer = Kit.producer(Kit.plain())) {
            Kit.done(producer.send(new ProducerRecord<>(topic, 0, null, wanted)));
        }
        Kit.equal(Arrays.equals(Kit.read(topic, 1).get(0).value(), wanted), true);
    }

    static void tooLarge(String topic) throws Exception {
        try (var producer = Kit.producer(Kit.plain())) {
            Kit.rejected(RecordTooLargeException.class, () -> Kit.done(producer.send(new ProducerRecord<>(topic, 0, null, new byte[500_000]))));
            Kit.send(producer, topic, List.of("small"));
        }
        Kit.equal(Kit.values(Kit.read(topic, 1)), List.of("small"));
    }

    static void idempotent(String topic) throws Exception {
        try (var producer = Kit.producer(Kit.plain("enable.idempotence", "true", "batch.size", 200))) {
            Kit.send(producer, topic, Kit.numbers(500));
        }
    }

    static void leaderKilled(String topic) throws Exception {
        try (var producer = Kit.producer(Kit.plain("acks", "all", "enable.idempotence", "true"))) {
            List<Future<?>> sent = new ArrayList<>();
            for (String value : Kit.numbers(600)) {
                sent.add(producer.send(Kit.record(topic, value), (m, e) -> {
                    if (e == null) Client.say("acked " + value);
                }));
                Thread.sleep(5);
            }
            for (Future<?> one : sent) Kit.done(one);
        }
    }

    static void majorityAcks(String topic) throws Exception {
        leaderKilled(topic);
        Kit.equal(Kit.values(Kit.read(topic, 600)).equals(Kit.numbers(600)), true);
    }

    private static KafkaProducer<byte[], byte[]> transactional(String id) {
        var producer = Kit.producer(Kit.plain("transactional.id", id));
        producer.initTransactions();
        return producer;
    }

    static void transactions(String topic) throws Exception {
        try (var producer = transactional(topic)) {
            for (List<String> sent : List.of(List.of("a1", "a2"), List.of("b1"), List.of("c1"))) {
                producer.beginTransaction();
                Kit.send(producer, topic, sent);
                if (sent.contains("b1")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        Kit.equal(Kit.values(Kit.read(topic, 3, "read_committed", 0)), List.of("a1", "a2", "c1"));
        Kit.equal(Kit.values(Kit.read(topic, 4)), List.of("a1", "a2", "b1", "c1"));
    }

    static void transactionOffsets(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var reader = Kit.grouped(topic); var producer = transactional(topic)) {
            reader.subscribe(List.of(topic));
            List<String> got = Kit.values(Kit.some(reader, 100));
            producer.beginTransaction();
            Kit.send(producer, topic + "-out", Kit.numbers(50));
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(50)), reader.groupMetadata());
            producer.abortTransaction();
            Kit.equal(String.valueOf(reader.committed(java.util.Set.of(partition)).get(partition)), "null");
            producer.beginTransaction();
            Kit.send(producer, topic + "-out", got.stream().map(v -> "<" + v + ">").toList());
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(100)), reader.groupMetadata());
            producer.commitTransaction();
            Kit.equal(reader.committed(java.util.Set.of(partition)).get(partition).offset(), 100L);
        }
        Kit.equal(Kit.values(Kit.read(topic + "-out", 100, "read_committed", 0)), Kit.numbers(100).stream().map(v -> "<" + v + ">").toList());
    }

    static void fencing(String topic) throws Exception {
        try (var old = transactional(topic)) {
            old.beginTransaction();
            Kit.send(old, topic, List.of("old"));
            try (var fresh = transactional(topic)) {
                try {
                    old.commitTransaction();
                    throw new AssertionError("not fenced");
                } catch (ProducerFencedException | InvalidProducerEpochException e) {
                    // as it should be
                }
                fresh.beginTransaction();
                Kit.send(fresh, topic, List.of("new"));
                fresh.commitTransaction();
            }
        }
        Kit.equal(Kit.values(Kit.read(topic, 1, "read_committed", 0)), List.of("new"));
    }
}
