"""Calls of tools and options that Kafka 4 has in addition to those of `calls`. They run on one cluster after the calls of `calls`."""

from __future__ import annotations

from tests.cli.calls import MAINS, B, Call

MAINS_4 = {
    **MAINS,
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
}
"""The tools of Kafka 4.3's bin/*.sh. kafka-replica-verification is not among them: it runs until it is killed."""

CONSUME = "--from-beginning --max-messages 3 --timeout-ms 60000"
CALLS_4 = (
    Call("kafka-topics", f"{B} --create --topic run --partitions 2 --replication-factor 3", "Created topic run"),
    Call("kafka-topics", f"{B} --describe --topic run", r"Elr:.*LastKnownElr:"),
    Call("kafka-topics", f"{B} --describe --under-min-isr-partitions"),
    Call("kafka-topics", f"{B} --create --topic run --if-not-exists"),
    Call("kafka-console-producer", f"{B} --topic run --reader-property parse.key=true --reader-property key.separator=:", stdin="a:one\nb:two\nc:three\n"),
    Call("kafka-console-consumer", f"{B} --topic run {CONSUME} --group runners --command-property group.protocol=consumer "
         "--formatter-property print.key=true --formatter-property print.headers=true", "(?s)(?=.*one)(?=.*two)(?=.*three).*Processed a total of 3 messages"),
    Call("kafka-groups", f"{B} --list", r"(?m)^runners\s+Consumer\s+consumer"),
    Call("kafka-groups", f"{B} --list --consumer", r"(?m)^runners\s"),
    Call("kafka-consumer-groups", f"{B} --describe --group runners --verbose", r"(?m)^runners\s+run\s+\d\s"),
    Call("kafka-consumer-groups", f"{B} --describe --all-groups --members --verbose", "no active members"),
    Call("kafka-consumer-groups", f"{B} --describe --all-groups --state --verbose", r"(?m)^runners\s.*Empty"),
    Call("kafka-consumer-groups", f"{B} --group runners --all-topics --reset-offsets --by-duration PT0S --dry-run", r"(?m)^runners\s+run\s+0\s+\d"),
    Call("kafka-consumer-groups", f"{B} --group runners --from-file {{dir}}/offsets.csv --reset-offsets --execute", r"(?m)^runners\s+run\s+1\s+0"),
    Call("kafka-configs", f"{B} --entity-type groups --entity-name sharers --alter --add-config share.auto.offset.reset=earliest", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type groups --entity-name sharers --describe", "share.auto.offset.reset=earliest"),
    Call("kafka-console-share-consumer", f"{B} --topic run --group sharers --max-messages 3 --timeout-ms 60000", "(?s)(?=.*one)(?=.*two)(?=.*three)"),
    Call("kafka-share-groups", f"{B} --list", "(?m)^sharers"),
    Call("kafka-share-groups", f"{B} --list --state", r"(?m)^sharers\s+Empty"),
    Call("kafka-share-groups", f"{B} --describe --group sharers --state", r"(?m)^sharers\s.*Empty"),
    Call("kafka-share-groups", f"{B} --describe --group sharers --members", "no active members"),
    Call("kafka-share-groups", f"{B} --describe --group sharers --offsets", r"(?m)^sharers\s+run\s+\d\s"),
    Call("kafka-share-groups", f"{B} --group sharers --reset-offsets --topic run --to-earliest --execute", r"(?m)^sharers\s+run\s+\d\s+0", within_s=60),
    Call("kafka-verifiable-share-consumer", f"{B} --topic run --group-id sharers --max-messages 3", '"name":"records_consumed"|records_consumed'),
    Call("kafka-share-consumer-perf-test", f"{B} --topic run --group perf-sharers --num-records 1 --timeout 5000 --hide-header", r"20\d\d"),
    Call("kafka-share-groups", f"{B} --group sharers --delete-offsets --topic run", r"run\s+Successful", within_s=60),
    Call("kafka-share-groups", f"{B} --group sharers --delete", "successful", within_s=60),
    Call("kafka-e2e-latency", "{b} run 20 all 100", "Avg latency"),
    Call("kafka-leader-election", f"{B} --election-type preferred --path-to-json-file {{dir}}/election.json", "already|Valid replica already elected|Successfully"),
    Call("kafka-log-dirs", f"{B} --describe --broker-list 1,2", '"partition":"run-0"'),
    Call("kafka-get-offsets", f"{B} --topic-partitions run:0-1 --time earliest", "(?m)^run:0:0$"),
    Call("kafka-get-offsets", f"{B} --topic run --time latest-tiered"),
    Call("kafka-get-offsets", f"{B} --topic run --time earliest-pending-upload"),
    Call("kafka-acls", f"{B} --add --allow-principal User:ann --producer --topic run --transactional-id '*'", "Adding ACLs|Current ACLs"),
    Call("kafka-acls", f"{B} --add --allow-principal User:bob --consumer --topic ru --group rea --resource-pattern-type prefixed", "PREFIXED"),
    Call("kafka-acls", f"{B} --list --topic run --resource-pattern-type match", "(?s)(?=.*User:ann)(?=.*User:bob)"),
    Call("kafka-acls", f"{B} --list --principal User:bob", "(?s)GROUP.*rea|rea.*GROUP"),
    Call("kafka-acls", f"{B} --remove --force --topic run --resource-pattern-type match"),
    Call("kafka-transactions", f"{B} find-hanging --broker-id 1"),
    Call("kafka-transactions", f"{B} list --duration-filter 1 --transactional-id-pattern .*", "TransactionalId"),
    Call("kafka-transactions", f"{B} list --transactional-id-pattern run[", rejects="INVALID_REGULAR_EXPRESSION"),
    Call("kafka-features", f"{B} version-mapping --release-version 4.3", "metadata.version"),
    Call("kafka-cluster", f"list-endpoints {B}", r"(?m)^1\s"),
    Call("kafka-cluster", f"unregister {B} --id 1", rejects="UnsupportedVersionException|does not support"),
    Call("kafka-topics", f"{B} --delete --topic run"),
)  # fmt: skip
CALLS_STREAMS = (
    Call("kafka-groups", f"{B} --list --streams", r"(?m)^counters\s+Streams"),
    Call("kafka-streams-groups", f"{B} --list", "(?m)^counters"),
    Call("kafka-streams-groups", f"{B} --list --state", r"(?m)^counters\s+Stable"),
    Call("kafka-streams-groups", f"{B} --describe --group counters", r"(?m)^counters\s+lines\s+0\s"),
    Call("kafka-streams-groups", f"{B} --describe --group counters --state --verbose", r"(?m)^counters\s.*Stable"),
    Call("kafka-streams-groups", f"{B} --describe --group counters --members --verbose", r"(?m)^counters\s.*counter-1\s.*process-1"),
    Call("kafka-streams-groups", f"{B} --group counters --delete", rejects="NON_EMPTY_GROUP|not empty|not EMPTY|could not be deleted"),
    Call("kafka-configs", f"{B} --entity-type groups --entity-name counters --alter --add-config streams.num.standby.replicas=1", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type groups --entity-name counters --describe", "streams.num.standby.replicas=1"),
    Call("kafka-streams-groups", f"{B} --list --state", r"(?m)^counters\s+Empty", within_s=90),
    Call("kafka-streams-groups", f"{B} --group counters --reset-offsets --all-input-topics --to-latest --execute", r"(?m)^counters\s+lines\s+0\s+\d", within_s=60),
    Call("kafka-streams-groups", f"{B} --group counters --delete-offsets --all-input-topics", "(?s)lines.*Successful", within_s=60),
    Call("kafka-streams-groups", f"{B} --group counters --delete", "(?i)success", within_s=60),
)  # fmt: skip
"""Calls for the streams group of `streams_group`, whose member sends no heartbeats: the group is empty after a session time-out."""
FILES_4 = {
    "offsets.csv": "run,1,0\n",
    "election.json": '{"partitions":[{"topic":"run","partition":0},{"topic":"run","partition":1}]}',
}
