import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share groups, which clients have since Kafka 4. */
public final class Shares implements Kit.Feature {
    private static final int RECORDS = 6;

    /** Odd records are rejected, one is released until its deliveries are used up, the others are accepted. */
    private static AcknowledgeType decision(int number) {
        return number % 2 == 1 ? AcknowledgeType.REJECT : number == 4 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    @Override
    public void play(String topic) throws Exception {
        String letters = "dlq." + topic;
        try (var admin = Admin.create(Kit.plain())) {
            var made = new NewTopic(letters, 1, (short) 3).configs(Map.of("errors.deadletterqueue.group.enable", "true"));
            Kit.done(admin.createTopics(List.of(made)).all());
            var entries =
                List.of(
                    new ConfigEntry("share.auto.offset.reset", "earliest"),
                    new ConfigEntry("errors.deadletterqueue.topic.name", letters),
                    new ConfigEntry("errors.deadletterqueue.copy.record.enable", "true"));
            var group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            var set = entries.stream().map(e -> new AlterConfigOp(e, AlterConfigOp.OpType.SET)).toList();
            Kit.done(admin.incrementalAlterConfigs(Map.of(group, set)).all());
        }
        try (var producer = Kit.producer(Kit.plain())) {
            for (int i = 0; i < RECORDS; i++) Kit.done(producer.send(Kit.record(topic, "" + i)));
        }
        Map<Integer, Integer> deliveries = new TreeMap<>();
        var settings = Kit.plain("group.id", topic, "share.acknowledgement.mode", "explicit");
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            Kit.until(
                () -> {
                    for (var r : consumer.poll(Duration.ofMillis(200))) {
                        int number = Integer.parseInt(Kit.text(r.value()));
                        deliveries.merge(number, 1, Integer::sum);
                        consumer.acknowledge(r, decision(number));
                    }
                    for (var failed : consumer.commitSync().values()) if (failed.isPresent()) throw failed.get();
                    return deliveries.size() == RECORDS && deliveries.get(4) == 5;
                },
                "the last delivery");
            // Dead letters are written while a member fetches.
            long until = System.currentTimeMillis() + 2_000;
            while (System.currentTimeMillis() < until) consumer.poll(Duration.ofMillis(200));
        }
        Kit.equal(deliveries.toString(), "{0=1, 1=1, 2=1, 3=1, 4=5, 5=1}");
        Map<String, String> found = new TreeMap<>();
        for (var r : Kit.read(letters, 4)) {
            Map<String, String> headers = new TreeMap<>();
            for (Header h : r.headers()) headers.put(h.key().replace("__dlq.errors.", ""), Kit.text(h.value()));
            Kit.equal(headers.get("topic") + headers.get("partition") + headers.get("group"), topic + "0" + topic);
            Kit.equal(headers.get("offset"), Kit.text(r.value()));
            found.put(Kit.text(r.value()), headers.get("delivery.count") + " " + headers.get("message"));
        }
        String rejected = "1 Offset rejected by client.";
        String usedUp = "5 Offset delivery count exceeded the threshold.";
        Kit.equal(found, new TreeMap<>(Map.of("1", rejected, "3", rejected, "4", usedUp, "5", rejected)));
    }
}
