import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Reading, alone and in groups. */
final class Consume {
    private static final TreeSet<Integer> ALL = new TreeSet<>(List.of(0, 1, 2, 3));

    static void fromStart(String topic) throws Exception {
        List<String> found = Kit.values(Kit.read(topic, 3000)).stream().map(v -> v.replaceAll("\\.+$", "")).toList();
        Kit.equal(found.equals(Kit.numbers(3000)), true);
    }

    static Kit.Feature assignor(String name, boolean cooperative) {
        return members(cooperative, "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + name);
    }

    static Kit.Feature members(boolean cooperative, Object... settings) {
        return topic -> {
            try (var one = new Kit.Member(topic, topic, settings)) {
                Kit.until(() -> one.owned().equals(ALL), "one member to own all");
                try (var two = new Kit.Member(topic, topic, settings)) {
                    Kit.until(() -> one.owned().size() == 2 & two.owned().size() == 2, "two members to share");
                    var both = one.owned();
                    if (cooperative) Kit.equal(both.stream().anyMatch(one.lost::contains), false);
                    both.addAll(two.owned());
                    Kit.equal(both, ALL);
                    Kit.until(() -> {
                        one.owned();
                        two.owned();
                        var seen = new TreeSet<>(one.seen);
                        seen.addAll(two.seen);
                        return seen.size() == 400;
                    }, "all records");
                }
                Kit.until(() -> one.owned().equals(ALL), "the one that stayed to own all again");
            }
        };
    }

    static void membersOfStaticGroup(String topic) throws Exception {
        Object[] first = {"group.instance.id", "one", "session.timeout.ms", 30_000};
        Object[] second = {"group.instance.id", "two", "session.timeout.ms", 30_000};
        try (var one = new Kit.Member(topic, topic, first)) {
            Kit.until(() -> one.owned().equals(ALL), "one member to own all");
            var two = new Kit.Member(topic, topic, second);
            Kit.until(() -> one.owned().size() == 2 & two.owned().size() == 2, "two members to share");
            var had = two.owned();
            two.close();
            one.lost.clear();
            try (var again = new Kit.Member(topic, topic, second)) {
                Kit.until(() -> !one.owned().isEmpty() & again.owned().equals(had), "the second member to have its partitions again");
                Kit.equal(one.lost.size(), 0);
            }
        }
    }

    static void commits(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var first = Kit.grouped(topic, "max.poll.records", 40)) {
            first.subscribe(List.of(topic));
            Kit.equal(Kit.some(first, 40).size(), 40);
            first.commitSync(Map.of(partition, new OffsetAndMetadata(40, "a note")));
        }
        try (var second = Kit.grouped(topic)) {
            Kit.equal(second.committed(Set.of(partition)).get(partition), new OffsetAndMetadata(40, "a note"));
            second.subscribe(List.of(topic));
            Kit.equal(Kit.values(Kit.some(second, 1)).get(0), "40");
        }
    }

    static void resets(String topic) throws Exception {
        try (var earliest = Kit.grouped(topic + "-e", "max.poll.records", 1)) {
            earliest.subscribe(List.of(topic));
            Kit.equal(Kit.values(Kit.some(earliest, 1)).get(0), "0");
            earliest.seek(new TopicPartition(topic, 0), 10_000);
            Kit.equal(Kit.values(Kit.some(earliest, 1)).get(0), "0");
        }
        try (var none = Kit.grouped(topic + "-n", "auto.offset.reset", "none")) {
            none.subscribe(List.of(topic));
            Kit.rejected(NoOffsetForPartitionException.class, () -> Kit.some(none, 1));
        }
        try (var latest = Kit.grouped(topic + "-l", "auto.offset.reset", "latest"); var producer = Kit.producer(Kit.plain())) {
            latest.subscribe(List.of(topic));
            List<String> found = new ArrayList<>();
            Kit.until(() -> {
                Kit.send(producer, topic, List.of("new"));
                latest.poll(Duration.ofMillis(500)).forEach(r -> found.add(Kit.text(r.value())));
                return !found.isEmpty();
            }, "a record that is new");
            Kit.equal(found.get(0), "new");
        }
    }

    static void timestamps(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var reader = Kit.grouped(topic)) {
            Kit.equal(reader.offsetsForTimes(Map.of(partition, Kit.FIRST_MS + 49_500)).get(partition).offset(), 50L);
            Kit.equal(String.valueOf(reader.offsetsForTimes(Map.of(partition, Kit.FIRST_MS + 1_000_000)).get(partition)), "null");
            reader.assign(List.of(partition));
            reader.seek(partition, reader.offsetsForTimes(Map.of(partition, Kit.FIRST_MS + 50_000)).get(partition).offset());
            Kit.equal(Kit.values(Kit.some(reader, 1)).get(0), "50");
        }
    }

    static void pause(String topic) throws Exception {
        var zero = new TopicPartition(topic, 0);
        var one = new TopicPartition(topic, 1);
        try (var reader = Kit.grouped(topic)) {
            reader.assign(List.of(zero, one));
            reader.seekToBeginning(List.of(zero, one));
            reader.pause(List.of(zero));
            Kit.equal(Kit.some(reader, 100).stream().map(r -> r.partition()).collect(Collectors.toSet()), Set.of(1));
            Kit.equal(reader.poll(Duration.ofSeconds(2)).count(), 0);
            reader.resume(List.of(zero));
            Kit.equal(Kit.some(reader, 100).stream().map(r -> r.partition()).collect(Collectors.toSet()), Set.of(0));
        }
    }

    static void pattern(String topic) throws Exception {
        try (var reader = Kit.grouped(topic)) {
            reader.subscribe(Pattern.compile(Pattern.quote(topic) + ".*"));
            Map<String, Integer> found = new HashMap<>();
            for (var r : Kit.some(reader, 100)) found.merge(r.topic(), 1, Integer::sum);
            Kit.equal(found, Map.of(topic, 50, topic + "-two", 50));
        }
    }
}
