package main

import (
	"errors"
	"os"
	"slices"

	"github.com/IBM/sarama"
)

func admin() sarama.ClusterAdmin { return got(sarama.NewClusterAdmin(bootstrap(), settings())) }

func committed(group, topic string) int64 {
	found := got(admin().ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	return found.GetBlock(topic, 0).Offset
}

func listed(topic string) (sarama.TopicDetail, bool) {
	detail, ok := got(admin().ListTopics())[topic]
	return detail, ok
}

func topics(topic string) {
	hour := "3600000"
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 3, ConfigEntries: map[string]*string{"retention.ms": &hour}}
	must(admin().CreateTopic(topic, detail, false))
	equal(errors.Is(admin().CreateTopic(topic, detail, false), sarama.ErrTopicAlreadyExists), true)
	until("the topic to be listed", func() bool { _, ok := listed(topic); return ok })
	for _, p := range got(admin().DescribeTopics([]string{topic}))[0].Partitions {
		equal(len(p.Replicas), 3)
	}
	must(admin().CreatePartitions(topic, 5, nil, false))
	until("five partitions", func() bool { detail, _ := listed(topic); return detail.NumPartitions == 5 })
	must(admin().DeleteTopic(topic))
	until("the topic to go", func() bool { _, ok := listed(topic); return !ok })
}

func config(kind sarama.ConfigResourceType, name, key string) sarama.ConfigEntry {
	for _, e := range got(admin().DescribeConfig(sarama.ConfigResource{Type: kind, Name: name})) {
		if e.Name == key {
			return e
		}
	}
	return sarama.ConfigEntry{}
}

func configs(topic string) {
	described := func() sarama.ConfigEntry { return config(sarama.TopicResource, topic, "retention.ms") }
	alter := func(how sarama.IncrementalAlterConfigsOperation, value *string) {
		entry := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: how, Value: value}}
		must(admin().IncrementalAlterConfig(sarama.TopicResource, topic, entry, false))
	}
	equal(described().Source, sarama.SourceDefault)
	wanted := "1234567"
	alter(sarama.IncrementalAlterConfigsOperationSet, &wanted)
	until("the setting", func() bool { e := described(); return e.Value == wanted && e.Source == sarama.SourceTopic })
	alter(sarama.IncrementalAlterConfigsOperationDelete, nil)
	until("the default", func() bool { return described().Source == sarama.SourceDefault })
	equal(config(sarama.BrokerResource, "1", "log.dirs").Value != "", true)
}

func groups(topic string) {
	one := join(bootstrap(), settings(), topic, topic, nil)
	until("the member to own its partition", func() bool { return len(one.owned()) == 1 })
	_, ok := got(admin().ListConsumerGroups())[topic]
	equal(ok, true)
	found := got(admin().DescribeConsumerGroups([]string{topic}))[0]
	equal(found.State, "Stable")
	equal(len(found.Members), 1)
	for _, m := range found.Members {
		equal(got(m.GetMemberAssignment()).Topics, map[string][]int32{topic: {0}})
	}
	equal(errors.Is(admin().DeleteConsumerGroup(topic), sarama.ErrNonEmptyGroup), true)
	one.leave()
	must(admin().DeleteConsumerGroup(topic))
	_, ok = got(admin().ListConsumerGroups())[topic]
	equal(ok, false)
}

func groupOffsets(topic string) {
	for _, wanted := range []int64{40, 10} {
		_, err := admin().AlterConsumerGroupOffsets(topic, map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: wanted, LeaderEpoch: -1}}}, nil)
		must(err)
		equal(committed(topic, topic), wanted)
	}
	must(admin().DeleteConsumerGroupOffset(topic, topic, 0))
	equal(committed(topic, topic), int64(-1))
}

func listOffsets(topic string) {
	var found []int64
	for _, kind := range []int64{sarama.OffsetOldest, sarama.OffsetNewest, firstMs + 50_000, -3} {
		one := got(admin().ListOffsets(map[string]map[int32]int64{topic: {0: kind}}, nil))[topic][0]
		equal(one.Err, sarama.ErrNoError) // never nil
		found = append(found, one.Offset)
	}
	equal(found, []int64{0, 100, 50, 99})
}

func deleteRecords(topic string) {
	must(admin().DeleteRecords(topic, map[int32]int64{0: 30}))
	equal(values(read(topic, 70, sarama.OffsetOldest)), numbers(100)[30:])
}

func cluster(string) {
	brokers, controller, err := admin().DescribeCluster()
	must(err)
	var ids []int32
	for _, b := range brokers {
		ids = append(ids, b.ID())
	}
	equal(slices.Sorted(slices.Values(ids)), []int32{1, 2, 3})
	equal(slices.Contains(ids, controller), true)
}

func logDirs(topic string) {
	for _, dirs := range got(admin().DescribeLogDirs([]int32{1, 2, 3})) {
		size := int64(0)
		for _, t := range dirs[0].Topics {
			if t.Topic == topic {
				size += t.Partitions[0].Size
			}
		}
		equal(size > 0, true)
	}
}

func scramCredentials(topic string) {
	described := func() int { return len(got(admin().DescribeUserScramCredentials([]string{topic}))[0].CredentialInfos) }
	alter := func(found []*sarama.AlterUserScramCredentialsResult, err error) {
		must(err)
		equal(found[0].ErrorCode, sarama.ErrNoError)
	}
	alter(admin().UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
		{Name: topic, Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 4096, Salt: []byte("some salt"), Password: []byte("x")},
	}))
	until("the credential", func() bool { return described() == 1 })
	alter(admin().DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: topic, Mechanism: sarama.SCRAM_MECHANISM_SHA_512}}))
	until("the credential to go", func() bool { return described() == 0 })
}

func quotas(topic string) {
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: topic}}
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: topic}}
	must(admin().AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}, false))
	until("the quota", func() bool {
		found := got(admin().DescribeClientQuotas(filter, true))
		return len(found) == 1 && found[0].Values["producer_byte_rate"] == 1e6
	})
	must(admin().AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false))
	until("the quota to go", func() bool { return len(got(admin().DescribeClientQuotas(filter, true))) == 0 })
}

func reassign(topic string) {
	replicas := func() []int32 { return got(admin().DescribeTopics([]string{topic}))[0].Partitions[0].Replicas }
	wanted := slices.Clone(replicas()[1:])
	must(admin().AlterPartitionReassignments(topic, [][]int32{wanted}))
	_, err := admin().ListPartitionReassignments(topic, []int32{0})
	must(err)
	until("the move", func() bool { return slices.Equal(replicas(), wanted) })
	equal(values(read(topic, 100, 0)), numbers(100))
}

func elect(topic string) {
	found := got(admin().ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}}))[topic]
	if one := found[0]; one != nil && one.ErrorCode != sarama.ErrNoError && one.ErrorCode != sarama.ErrElectionNotNeeded {
		panic(one.ErrorCode)
	}
}

func comeAndGo(topic string, addresses []string, config *sarama.Config) {
	must(send(got(sarama.NewSyncProducer(addresses, config)), topic, numbers(100)))
	reader := join(addresses, config, topic, topic, nil)
	until("100 records", func() bool { return len(reader.told()) == 100 })
	equal(reader.told(), numbers(100))
	reader.leave()
}

func turnedAway(addresses []string, config *sarama.Config) {
	config.Metadata.Retry.Max = 0
	_, err := sarama.NewClient(addresses, config)
	equal(errors.Is(err, sarama.ErrSASLAuthenticationFailed), true)
}

func scramTLS(topic string) {
	addresses, config := secured("alice", os.Getenv("SCENE_PASSWORD"))
	comeAndGo(topic, addresses, config)
}

func wrongPassword(string) { turnedAway(secured("alice", "wrong")) }

func bearerTokens(topic string) {
	addresses, config := bearer(os.Getenv("SCENE_TOKEN"))
	comeAndGo(topic, addresses, config)
	turnedAway(bearer(os.Getenv("SCENE_FORGED")))
}

func attempt(topic, value string, addresses []string, config *sarama.Config) error {
	p, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	defer p.Close()
	return send(p, topic, []string{value})
}

func mutualTLS(topic string) {
	addresses, config := certified("alice")
	comeAndGo(topic, addresses, config)
	addresses, config = certified("bob")
	equal(errors.Is(attempt(topic, "no", addresses, config), sarama.ErrTopicAuthorizationFailed), true)
}

func accessControl(topic string) {
	addresses, config := secured("bob", os.Getenv("SCENE_PASSWORD"))
	attempt := func(value string) error { return attempt(topic, value, addresses, config) }
	equal(errors.Is(attempt("no"), sarama.ErrTopicAuthorizationFailed), true)
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: sarama.AclPatternLiteral}
	must(admin().CreateACL(resource, sarama.Acl{Principal: "User:bob", Host: "*", Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionAllow}))
	until("bob to be allowed", func() bool { return attempt("yes") == nil })
	equal(values(read(topic, 1, 0)), []string{"yes"})
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourceName: &topic, ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Operation: sarama.AclOperationWrite, PermissionType: sarama.AclPermissionAllow,
	}
	equal(len(got(admin().ListAcls(filter))), 1)
	equal(len(got(admin().DeleteACL(filter, false))), 1)
	until("the ACL to go", func() bool { return len(got(admin().ListAcls(filter))) == 0 })
}
