import java.util.HashMap;
import java.util.Map;

/** The Java client as its users use it: the features named as arguments, told line by line (tests/foreign/stage.py says how). */
public final class Client {
    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Map<String, Kit.Feature> features() {
        Map<String, Kit.Feature> out = new HashMap<>();
        for (String acks : new String[] {"0", "1", "all"}) out.put("acks-" + acks, Produce.acks(acks));
        for (String codec : new String[] {"gzip", "snappy", "lz4", "zstd"}) out.put(codec, Produce.codec(codec));
        out.put("headers", Produce::headers);
        out.put("delayed", Produce::delayed);
        out.put("half", Produce::half);
        out.put("routes", Produce::routes);
        out.put("share-letters", topic -> optional("Shares", "share groups").play(topic));
        out.put("nulls", Produce::nulls);
        out.put("big", Produce::big);
        out.put("too-large", Produce::tooLarge);
        out.put("idempotent", Produce::idempotent);
        out.put("transactions", Produce::transactions);
        out.put("transaction-offsets", Produce::transactionOffsets);
        out.put("fencing", Produce::fencing);
        out.put("leader-killed", Produce::leaderKilled);
        out.put("majority-acks", Produce::majorityAcks);
        out.put("from-start", Consume::fromStart);
        out.put("group", Consume.members(false));
        out.put("assignor-range", Consume.assignor("RangeAssignor", false));
        out.put("assignor-roundrobin", Consume.assignor("RoundRobinAssignor", false));
        out.put("assignor-sticky", Consume.assignor("StickyAssignor", false));
        out.put("assignor-cooperative", Consume.assignor("CooperativeStickyAssignor", true));
        out.put("static", Consume::membersOfStaticGroup);
        out.put("new-protocol", Consume.members(false, "group.protocol", "consumer"));
        out.put("commits", Consume::commits);
        out.put("resets", Consume::resets);
        out.put("timestamps", Consume::timestamps);
        out.put("pause", Consume::pause);
        out.put("pattern", Consume::pattern);
        out.put("topics", Administration::topics);
        out.put("configs", Administration::configs);
        out.put("groups", Administration::groups);
        out.put("group-offsets", Administration::groupOffsets);
        out.put("list-offsets", Administration::listOffsets);
        out.put("delete-records", Administration::deleteRecords);
        out.put("cluster", Administration::cluster);
        out.put("log-dirs", Administration::logDirs);
        out.put("transactions-admin", Administration::transactionsAdmin);
        out.put("scram", Administration::scram);
        out.put("quotas", Administration::quotas);
        out.put("reassign", Administration::reassign);
        out.put("elect", Administration::elect);
        out.put("scram-tls", Administration::scramTls);
        out.put("wrong-password", Administration::wrongPassword);
        out.put("oauth", Administration::oauth);
        out.put("mutual-tls", Administration::mutualTls);
        out.put("acls", Administration::acls);
        out.put("streams", Counting::streams);
        out.put("streams-group", topic -> optional("StreamsGroups", "streams groups").play(topic));
        return out;
    }

    /** Compiled for clients of Kafka 4 only. */
    private static Kit.Feature optional(String name, String what) throws Exception {
        try {
            return (Kit.Feature) Class.forName(name).getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            throw new Kit.Lacks(what + " need a client of Kafka 4");
        }
    }

    public static void main(String[] names) {
        Map<String, Kit.Feature> features = features();
        for (String name : names) {
            say("begin " + name);
            try {
                features.get(name).play(Kit.PREFIX + name);
                say("yes " + name);
            } catch (Kit.Lacks e) {
                say("none " + name + " " + e.getMessage());
            } catch (Throwable e) {
                e.printStackTrace();
                String why = e.toString().replaceAll("\\s+", " ");
                say("no " + name + " " + why.substring(0, Math.min(300, why.length())));
            }
        }
        System.exit(0);
    }
}
