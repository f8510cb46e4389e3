import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** AdminClient's calls, and security. */
final class Administration {
    static void topics(String topic) throws Exception {
        try (var admin = Kit.admin()) {
            var wanted = new NewTopic(topic, 2, (short) 3).configs(Map.of("retention.ms", "3600000"));
            Kit.done(admin.createTopics(List.of(wanted)).all());
            Kit.rejected(TopicExistsException.class, () -> Kit.done(admin.createTopics(List.of(wanted)).all()));
            Kit.until(() -> Kit.done(admin.listTopics().names()).contains(topic), "the topic to be listed");
            var described = Kit.done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
            Kit.equal(described.partitions().stream().map(p -> p.replicas().size()).toList(), List.of(3, 3));
            Kit.done(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
            Kit.until(() -> Kit.done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size() == 5, "five partitions");
            Kit.done(admin.deleteTopics(List.of(topic)).all());
            Kit.until(() -> !Kit.done(admin.listTopics().names()).contains(topic), "the topic to go");
        }
    }

    static void configs(String topic) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        try (var admin = Kit.admin()) {
            Kit.equal(Kit.done(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms").source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG);
            var set = new AlterConfigOp(new ConfigEntry("retention.ms", "1234567"), AlterConfigOp.OpType.SET);
            Kit.done(admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all());
            Kit.until(() -> {
                var entry = Kit.done(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms");
                return entry.value().equals("1234567") && entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG;
            }, "the setting");
            var unset = new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE);
            Kit.done(admin.incrementalAlterConfigs(Map.of(resource, List.of(unset))).all());
            Kit.until(() -> Kit.done(admin.describeConfigs(List.of(resource)).all()).get(resource).get("retention.ms").isDefault(), "the default");
            Kit.equal(Kit.done(admin.describeConfigs(List.of(broker)).all()).get(broker).get("log.dirs") != null, true);
        }
    }

    static void groups(String topic) throws Exception {
        try (var admin = Kit.admin()) {
            try (var member = new Kit.Member(topic, topic)) {
                Kit.until(() -> member.owned().equals(Set.of(0)), "the member to own its partition");
                Kit.equal(Kit.done(admin.listConsumerGroups().all()).stream().anyMatch(g -> g.groupId().equals(topic)), true);
                var described = Kit.done(admin.describeConsumerGroups(List.of(topic)).all()).get(topic);
                Kit.equal(described.state().toString() + described.members().size(), "Stable1");
                Kit.equal(described.members().iterator().next().assignment().topicPartitions(), Set.of(new TopicPartition(topic, 0)));
                Kit.rejected(GroupNotEmptyException.class, () -> Kit.done(admin.deleteConsumerGroups(List.of(topic)).all()));
            }
            Kit.done(admin.deleteConsumerGroups(List.of(topic)).all());
            Kit.equal(Kit.done(admin.listConsumerGroups().all()).stream().anyMatch(g -> g.groupId().equals(topic)), false);
        }
    }

    static void groupOffsets(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var reader = Kit.grouped(topic)) {
            reader.assign(List.of(partition));
            reader.commitSync(Map.of(partition, new OffsetAndMetadata(40)));
        }
        try (var admin = Kit.admin()) {
            Kit.equal(Kit.done(admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata()).get(partition).offset(), 40L);
            Kit.done(admin.alterConsumerGroupOffsets(topic, Map.of(partition, new OffsetAndMetadata(10))).all());
            Kit.equal(Kit.done(admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata()).get(partition).offset(), 10L);
            Kit.done(admin.deleteConsumerGroupOffsets(topic, Set.of(partition)).all());
            Kit.equal(Kit.done(admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata()), Map.of());
        }
    }

    static void listOffsets(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin()) {
            List<Long> found = new ArrayList<>();
            for (var kind : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.forTimestamp(Kit.FIRST_MS + 50_000), OffsetSpec.maxTimestamp()))
                found.add(Kit.done(admin.listOffsets(Map.of(partition, kind)).partitionResult(partition)).offset());
            Kit.equal(found, List.of(0L, 100L, 50L, 99L));
        }
    }

    static void deleteRecords(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin()) {
            var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(30)));
            Kit.equal(Kit.done(deleted.lowWatermarks().get(partition)).lowWatermark(), 30L);
        }
        Kit.equal(Kit.values(Kit.read(topic, 70, "read_uncommitted", 30)), Kit.numbers(100).subList(30, 100));
    }

    static void cluster(String topic) throws Exception {
        try (var admin = Kit.admin()) {
            var found = admin.describeCluster();
            Set<Integer> ids = new HashSet<>();
            Kit.done(found.nodes()).forEach(n -> ids.add(n.id()));
            Kit.equal(ids, Set.of(1, 2, 3));
            Kit.equal(ids.contains(Kit.done(found.controller()).id()) && !Kit.done(found.clusterId()).isEmpty(), true);
        }
    }

    static void logDirs(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin()) {
            for (var broker : Kit.done(admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions()).values()) {
                long size = broker.values().stream().mapToLong(d -> d.replicaInfos().containsKey(partition) ? d.replicaInfos().get(partition).size() : 0).sum();
                Kit.equal(size > 0, true);
            }
        }
    }

    static void transactionsAdmin(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin(); var producer = Kit.producer(Kit.plain("transactional.id", topic))) {
            producer.initTransactions();
            producer.beginTransaction();
            Kit.send(producer, topic, List.of("open"));
            Kit.equal(Kit.done(admin.listTransactions().all()).stream().anyMatch(t -> t.transactionalId().equals(topic)), true);
            var found = Kit.done(admin.describeTransactions(List.of(topic)).all()).get(topic);
            Kit.equal(found.state(), TransactionState.ONGOING);
            Kit.equal(found.topicPartitions(), Set.of(partition));
            var producers = Kit.done(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
            Kit.equal(producers.stream().anyMatch(p -> p.producerId() == found.producerId() && p.currentTransactionStartOffset().isPresent()), true);
            producer.abortTransaction();
        }
    }

    static void scram(String topic) throws Exception {
        try (var admin = Kit.admin()) {
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
            Kit.done(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(topic, info, "x"))).all());
            Kit.until(() -> {
                try {
                    return Kit.done(admin.describeUserScramCredentials(List.of(topic)).description(topic)).credentialInfos().equals(List.of(info));
                } catch (ResourceNotFoundException e) {
                    return false;
                }
            }, "the credential");
            Kit.done(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(topic, ScramMechanism.SCRAM_SHA_512))).all());
            Kit.until(() -> !Kit.done(admin.describeUserScramCredentials().users()).contains(topic), "the credential to go");
        }
    }

    static void quotas(String topic) throws Exception {
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, topic));
        var filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, topic)));
        try (var admin = Kit.admin()) {
            Kit.done(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all());
            Kit.until(() -> Kit.done(admin.describeClientQuotas(filter).entities()).equals(Map.of(entity, Map.of("producer_byte_rate", 1e6))), "the quota");
            Kit.done(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all());
            Kit.until(() -> Kit.done(admin.describeClientQuotas(filter).entities()).isEmpty(), "the quota to go");
        }
    }

    static void reassign(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin()) {
            var before = Kit.done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().get(0).replicas();
            List<Integer> wanted = before.stream().map(n -> n.id()).skip(1).toList();
            Kit.done(admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(wanted)))).all());
            Kit.done(admin.listPartitionReassignments().reassignments());
            Kit.until(() -> Kit.done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().get(0).replicas().stream().map(n -> n.id()).toList().equals(wanted), "the move");
        }
        Kit.equal(Kit.values(Kit.read(topic, 100)), Kit.numbers(100));
    }

    static void elect(String topic) throws Exception {
        var partition = new TopicPartition(topic, 0);
        try (var admin = Kit.admin()) {
            var found = Kit.done(admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions()).get(partition);
            if (found.isPresent() && !(found.get() instanceof ElectionNotNeededException)) throw (Exception) found.get();
        }
    }

    private static void comeAndGo(String topic, Map<String, Object> door) throws Exception {
        try (var producer = Kit.producer(door)) {
            Kit.send(producer, topic, Kit.numbers(100));
        }
        try (var reader = Kit.consumer(Kit.with(door, "group.id", topic, "auto.offset.reset", "earliest"))) {
            reader.subscribe(List.of(topic));
            Kit.equal(Kit.values(Kit.some(reader, 100)), Kit.numbers(100));
        }
    }

    private static void turnedAway(Map<String, Object> door) throws Exception {
        try (var admin = org.apache.kafka.clients.admin.Admin.create(door)) {
            Kit.rejected(SaslAuthenticationException.class, () -> Kit.done(admin.describeCluster().nodes()));
        }
    }

    static void scramTls(String topic) throws Exception {
        comeAndGo(topic, Kit.secured("alice", Kit.PASSWORD));
    }

    static void wrongPassword(String topic) throws Exception {
        turnedAway(Kit.secured("alice", "wrong"));
    }

    static void oauth(String topic) throws Exception {
        comeAndGo(topic, Kit.bearer("/token"));
        turnedAway(Kit.bearer("/forged"));
    }

    static void mutualTls(String topic) throws Exception {
        comeAndGo(topic, Kit.certified("alice"));
        try (var producer = Kit.producer(Kit.certified("bob"))) {
            Kit.rejected(AuthorizationException.class, () -> Kit.done(producer.send(Kit.record(topic, "no"))));
        }
    }

    static void acls(String topic) throws Exception {
        try (var admin = Kit.admin()) {
            try (var producer = Kit.producer(Kit.secured("bob", Kit.PASSWORD))) {
                Kit.rejected(AuthorizationException.class, () -> Kit.done(producer.send(Kit.record(topic, "no"))));
            }
            var entry = new AccessControlEntry("User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW);
            var acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL), entry);
            Kit.done(admin.createAcls(List.of(acl)).all());
            Kit.until(() -> {
                try (var producer = Kit.producer(Kit.secured("bob", Kit.PASSWORD))) {
                    Kit.done(producer.send(Kit.record(topic, "yes")));
                    return true;
                } catch (AuthorizationException e) {
                    return false;
                }
            }, "bob to be allowed");
            Kit.equal(Kit.values(Kit.read(topic, 1)), List.of("yes"));
            Kit.equal(List.copyOf(Kit.done(admin.describeAcls(acl.toFilter()).values())), List.of(acl));
            Kit.done(admin.deleteAcls(List.of(acl.toFilter())).all());
            Kit.until(() -> Kit.done(admin.describeAcls(acl.toFilter()).values()).isEmpty(), "the ACL to go");
        }
    }
}
