"""The calls of each tool and their expected output. They run in this order on one cluster; a call that must be rejected has the expected error.

`says` and `rejects` are regular expressions over the whole output of the tool.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """`{b}` in the arguments is the bootstrap list, `{dir}` a directory for files. `rejects`: the expected error instead of success. `within_s`: the call
    is retried for this long until the output matches.
    """

    tool: str
    arguments: str
    says: str = ""
    rejects: str = ""
    stdin: str = ""
    within_s: float = 0.0


MAINS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
}
"""The tools of Kafka 3.9's bin/*.sh."""

B = "--bootstrap-server {b}"
DELETE_JSON = '{"version":1,"partitions":[{"topic":"walk","partition":0,"offset":1}]}'

CALLS = (
    Call("kafka-topics", f"{B} --create --topic walk --partitions 2 --replication-factor 3 --config retention.ms=3600000", "Created topic walk"),
    Call("kafka-topics", f"{B} --list", "(?m)^walk$"),
    Call("kafka-topics", f"{B} --describe --topic walk", r"PartitionCount: 2\s+ReplicationFactor: 3\s+Configs: retention.ms=3600000"),
    Call("kafka-topics", f"{B} --alter --topic walk --partitions 3"),
    Call("kafka-topics", f"{B} --create --topic walk", rejects="already exists"),
    Call("kafka-console-producer", f"{B} --topic walk --property parse.key=true --property key.separator=:", stdin="a:one\nb:two\nc:three\n"),
    Call("kafka-console-consumer", f"{B} --topic walk --from-beginning --max-messages 3 --group readers --timeout-ms 60000",
         "(?s)(?=.*one)(?=.*two)(?=.*three).*Processed a total of 3 messages"),
    Call("kafka-consumer-groups", f"{B} --list", "readers"),
    Call("kafka-consumer-groups", f"{B} --describe --group readers", r"(?m)^readers\s+walk\s+\d+\s+\d+\s+\d+\s+0"),
    Call("kafka-consumer-groups", f"{B} --describe --group readers --state", "Empty"),
    Call("kafka-consumer-groups", f"{B} --group readers --topic walk --reset-offsets --to-earliest --execute", r"readers\s+walk\s+\d\s+0"),
    Call("kafka-consumer-groups", f"{B} --group readers --topic walk --delete-offsets", r"walk\s+2\s+Successful"),
    Call("kafka-consumer-groups", f"{B} --group readers --delete", "was successful"),
    Call("kafka-get-offsets", f"{B} --topic walk --time -1", r"(?m)^walk:2:\d+$"),
    Call("kafka-get-offsets", f"{B} --topic walk --time max-timestamp", r"(?m)^walk:1:1$"),
    Call("kafka-get-offsets", f"{B} --topic walk --time earliest-local", r"(?m)^walk:0:0$"),
    Call("kafka-producer-perf-test", "--topic walk --num-records 2000 --record-size 100 --throughput -1 --producer-props bootstrap.servers={b}",
         "2000 records sent"),
    Call("kafka-consumer-perf-test", f"{B} --topic walk --messages 2000 --timeout 60000", r", 20\d\d, "),
    Call("kafka-verifiable-producer", f"{B} --topic walk --max-messages 20", '"name":"tool_data".*"acked":20|"acked":20'),
    Call("kafka-verifiable-consumer", f"{B} --topic walk --group-id verifiers --reset-policy earliest --max-messages 10 --enable-autocommit", '"name":"records_consumed"'),
    Call("kafka-delete-records", f"{B} --offset-json-file {{dir}}/delete.json", "low_watermark: 1"),
    Call("kafka-configs", f"{B} --entity-type topics --entity-name walk --alter --add-config max.message.bytes=2000000", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type topics --entity-name walk --describe --all", "max.message.bytes=2000000 sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-name 1 --alter --add-config num.partitions=5", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-name 1 --describe", "num.partitions=5 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:num.partitions=5"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-default --alter --add-config log.retention.ms=86400000", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-default --describe", "log.retention.ms=86400000"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-name 1 --alter --add-config log.dirs=/x", rejects="Cannot update log.dirs while the broker runs"),
    Call("kafka-configs", f"{B} --entity-type broker-loggers --entity-name 1 --alter --add-config brokerd.runtime.broker=DEBUG", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type broker-loggers --entity-name 1 --describe", "brokerd.runtime.broker=DEBUG"),
    Call("kafka-configs", f"{B} --entity-type users --entity-name ann --alter --add-config producer_byte_rate=1000000", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type users --entity-name ann --alter --add-config SCRAM-SHA-256=[password=hush-hush]", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type users --entity-name ann --describe", "(?s)producer_byte_rate=1000000.*SCRAM-SHA-256=iterations"),
    Call("kafka-configs", f"{B} --entity-type ips --entity-name 10.1.2.3 --alter --add-config connection_creation_rate=20", "Completed updating"),
    Call("kafka-configs", f"{B} --entity-type ips --describe", "connection_creation_rate=20"),
    Call("kafka-configs", f"{B} --entity-type client-metrics --describe"),
    Call("kafka-client-metrics", f"{B} --list"),
    Call("kafka-acls", f"{B} --add --allow-principal User:ann --operation Read --topic walk", "(?s)User:ann.*READ|Adding ACLs"),
    Call("kafka-acls", f"{B} --list --topic walk", "principal=User:ann.*operation=READ"),
    Call("kafka-acls", f"{B} --remove --force --allow-principal User:ann --operation Read --topic walk"),
    Call("kafka-leader-election", f"{B} --election-type preferred --topic walk --partition 0", "already|Valid replica already elected"),
    Call("kafka-leader-election", f"{B} --election-type unclean --all-topic-partitions"),
    Call("kafka-log-dirs", f"{B} --describe --topic-list walk", '"partition":"walk-0"'),
    Call("kafka-transactions", f"{B} list", "TransactionalId"),
    Call("kafka-transactions", f"{B} describe-producers --topic walk --partition 0", "ProducerId"),
    Call("kafka-transactions", f"{B} find-hanging --topic walk", "ProducerId|Topic"),
    Call("kafka-features", f"{B} describe", r"Feature: transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2"),
    Call("kafka-features", f"{B} upgrade --feature transaction.version=2", "transaction.version was upgraded to 2"),
    Call("kafka-features", f"{B} describe", r"transaction.version.*FinalizedVersionLevel: 2"),
    Call("kafka-features", f"{B} upgrade --metadata 3.9", rejects="unknown feature .metadata.version."),
    Call("kafka-broker-api-versions", f"{B}", r"ElectLeaders\(43\): 0 to 2 \[usable: 2\]"),
    Call("kafka-cluster", f"cluster-id {B}", "Cluster ID: "),
    Call("kafka-delegation-tokens", f"{B} --create --max-life-time-period -1 --command-config {{dir}}/empty.properties", rejects="DelegationTokenDisabledException"),
    Call("kafka-metadata-quorum", f"{B} describe --status", rejects="UnsupportedVersionException"),
    Call("kafka-topics", f"{B} --delete --topic walk"),
)  # fmt: skip

# On a cluster with a database: a reassignment by a tool becomes a move there.
HOUSE_FILES = {
    "topics.json": '{"version":1,"topics":[{"topic":"moved"}]}',
    "there.json": '{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[3,2]},{"topic":"moved","partition":1,"replicas":[1,3]}]}',
    "back.json": '{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[1,2]},{"topic":"moved","partition":1,"replicas":[2,3]}]}',
}
REASSIGN = "kafka-reassign-partitions"
HOUSE_CALLS = (
    Call("kafka-topics", f"{B} --create --topic moved --replica-assignment 1:2,2:3", "Created topic moved"),
    Call("kafka-producer-perf-test", "--topic moved --num-records 12000 --record-size 500 --throughput -1 --producer-props bootstrap.servers={b}",
         "12000 records sent"),
    Call(REASSIGN, f"{B} --generate --topics-to-move-json-file {{dir}}/topics.json --broker-list 1,2,3", "Proposed partition reassignment configuration"),
    Call(REASSIGN, f"{B} --execute --reassignment-json-file {{dir}}/there.json --throttle 50000000", "Successfully started partition reassignments for moved-0,moved-1"),
    Call(REASSIGN, f"{B} --verify --reassignment-json-file {{dir}}/there.json",
         "(?s)Reassignment of partition moved-0 is completed.*Reassignment of partition moved-1 is completed.*Clearing topic-level throttles", within_s=90),
    Call(REASSIGN, f"{B} --list", "No partition reassignments found"),
    Call("kafka-topics", f"{B} --describe --topic moved", r"(?s)Partition: 0\s+Leader: \d\s+Replicas: 3,2\s.*Partition: 1\s+Leader: \d\s+Replicas: 1,3\s"),
    Call(REASSIGN, f"{B} --execute --reassignment-json-file {{dir}}/back.json --throttle 50000", "Successfully started partition reassignments for moved-0,moved-1"),
    Call(REASSIGN, f"{B} --list", r"(?s)Current partition reassignments:.*moved-0: replicas: [\d,]+\. adding: 1\. removing: 3"),
    Call(REASSIGN, f"{B} --cancel --reassignment-json-file {{dir}}/back.json", "(?s)Successfully cancelled partition reassignments for: moved-0,moved-1"),
    Call(REASSIGN, f"{B} --list", "No partition reassignments found", within_s=60),
    Call("kafka-topics", f"{B} --describe --topic moved", r"(?s)Partition: 0\s+Leader: \d\s+Replicas: 3,2\s.*Partition: 1\s+Leader: \d\s+Replicas: 1,3\s"),
    Call("kafka-configs", f"{B} --entity-type brokers --entity-name 1 --describe", r"(?s)\A(?!.*throttled\.rate)"),
)  # fmt: skip
