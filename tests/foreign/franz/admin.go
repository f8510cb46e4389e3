package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func seeds() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("SCENE_BOOTSTRAP"), ",")...)}
}

func set(topic string, partitions ...int32) kadm.TopicsSet {
	out := kadm.TopicsSet{}
	out.Add(topic, partitions...)
	return out
}

func listed(topic string) kadm.TopicDetail {
	found, err := admin().ListTopics(within())
	must(err)
	return found[topic]
}

func topics(topic string) {
	hour := "3600000"
	create := func() error {
		made, err := admin().CreateTopic(within(), 2, 3, map[string]*string{"retention.ms": &hour}, topic)
		if err == nil {
			err = made.Err
		}
		return err
	}
	must(create())
	equal(errors.Is(create(), kerr.TopicAlreadyExists), true)
	until("the topic to be listed", func() bool { return len(listed(topic).Partitions) == 2 })
	for _, p := range listed(topic).Partitions {
		equal(len(p.Replicas), 3)
	}
	grown, err := admin().UpdatePartitions(within(), 5, topic)
	must(err)
	must(grown.Error())
	until("five partitions", func() bool { return len(listed(topic).Partitions) == 5 })
	gone, err := admin().DeleteTopic(within(), topic)
	must(err)
	must(gone.Err)
	until("the topic to go", func() bool { return len(listed(topic).Partitions) == 0 })
}

func config(found kadm.ResourceConfigs, err error, key string) (string, string) {
	must(err)
	for _, c := range found[0].Configs {
		if c.Key == key {
			return c.MaybeValue(), c.Source.String()
		}
	}
	return "", ""
}

func configs(topic string) {
	described := func() (string, string) {
		found, err := admin().DescribeTopicConfigs(within(), topic)
		return config(found, err, "retention.ms")
	}
	alter := func(op kadm.IncrementalOp, value *string) {
		done, err := admin().AlterTopicConfigs(within(), []kadm.AlterConfig{{Op: op, Name: "retention.ms", Value: value}}, topic)
		must(err)
		must(done[0].Err)
	}
	_, source := described()
	equal(source, "DEFAULT_CONFIG")
	wanted := "1234567"
	alter(kadm.SetConfig, &wanted)
	until("the setting", func() bool { value, source := described(); return value == wanted && source == "DYNAMIC_TOPIC_CONFIG" })
	alter(kadm.DeleteConfig, nil)
	until("the default", func() bool { _, source := described(); return source == "DEFAULT_CONFIG" })
	found, err := admin().DescribeBrokerConfigs(within(), 1)
	value, _ := config(found, err, "log.dirs")
	equal(value != "", true)
}

func hasGroup(group string) bool {
	found, err := admin().ListGroups(within())
	must(err)
	_, ok := found[group]
	return ok
}

func groups(topic string) {
	one := join(topic, topic)
	until("the member to own its partition", func() bool { return len(one.owned()) == 1 })
	equal(hasGroup(topic), true)
	found, err := admin().DescribeGroups(within(), topic)
	must(err)
	group := found[topic]
	equal(group.State, "Stable")
	equal(len(group.Members), 1)
	equal(group.AssignedPartitions().Sorted(), set(topic, 0).Sorted())
	_, err = admin().DeleteGroup(within(), topic)
	equal(errors.Is(err, kerr.NonEmptyGroup), true)
	one.Close()
	_, err = admin().DeleteGroup(within(), topic)
	must(err)
	equal(hasGroup(topic), false)
}

func groupOffsets(topic string) {
	for _, wanted := range []int64{40, 10} {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: wanted, LeaderEpoch: -1})
		must(admin().CommitAllOffsets(within(), topic, offsets))
		equal(committed(topic, topic), wanted)
	}
	gone, err := admin().DeleteOffsets(within(), topic, set(topic, 0))
	must(err)
	must(gone.Error())
	equal(committed(topic, topic), int64(-1))
}

func listOffsets(topic string) {
	var found []int64
	one := func(offsets kadm.ListedOffsets, err error) {
		must(err)
		found = append(found, offsets[topic][0].Offset)
	}
	one(admin().ListStartOffsets(within(), topic))
	one(admin().ListEndOffsets(within(), topic))
	one(admin().ListOffsetsAfterMilli(within(), firstMs+50_000, topic))
	one(admin().ListMaxTimestampOffsets(within(), topic))
	equal(found, []int64{0, 100, 50, 99})
}

func deleteRecords(topic string) {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 30})
	found, err := admin().DeleteRecords(within(), offsets)
	must(err)
	must(found.Error())
	equal(found[topic][0].LowWatermark, int64(30))
	equal(values(read(topic, 70, 30)), numbers(100)[30:])
}

func cluster(string) {
	found, err := admin().BrokerMetadata(within())
	must(err)
	equal(found.Brokers.NodeIDs(), []int32{1, 2, 3})
	equal(slices.Contains([]int32{1, 2, 3}, found.Controller) && found.Cluster != "", true)
}

func logDirs(topic string) {
	found, err := admin().DescribeAllLogDirs(within(), set(topic, 0))
	must(err)
	for _, broker := range []int32{1, 2, 3} {
		equal(found[broker].Size() > 0, true)
	}
}

func transactionsAdmin(topic string) {
	producer := client(kgo.TransactionalID(topic))
	must(producer.BeginTransaction())
	must(send(producer, topic, []string{"open"}))
	all, err := admin().ListTransactions(within(), nil, nil)
	must(err)
	equal(slices.Contains(all.TransactionalIDs(), topic), true)
	described, err := admin().DescribeTransactions(within(), topic)
	must(err)
	one := described[topic]
	equal(one.State, "Ongoing")
	equal(one.Topics.Sorted(), set(topic, 0).Sorted())
	producers, err := admin().DescribeProducers(within(), set(topic, 0))
	must(err)
	equal(slices.ContainsFunc(producers.SortedProducers(), func(p kadm.DescribedProducer) bool {
		return p.ProducerID == one.ProducerID && p.CurrentTxnStartOffset >= 0
	}), true)
	must(producer.EndTransaction(within(), kgo.TryAbort))
}

func scramCredentials(topic string) {
	alter := func(found kadm.AlteredUserSCRAMs, err error) {
		must(err)
		must(found.Error())
	}
	described := func() int {
		found, err := admin().DescribeUserSCRAMs(within(), topic)
		must(err)
		return len(found[topic].CredInfos)
	}
	alter(admin().AlterUserSCRAMs(within(), nil, []kadm.UpsertSCRAM{{User: topic, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "x"}}))
	until("the credential", func() bool { return described() == 1 })
	alter(admin().AlterUserSCRAMs(within(), []kadm.DeleteSCRAM{{User: topic, Mechanism: kadm.ScramSha512}}, nil))
	until("the credential to go", func() bool { return described() == 0 })
}

func quotas(topic string) {
	alter := func(remove bool) {
		entry := kadm.AlterClientQuotaEntry{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &topic}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e6, Remove: remove}},
		}
		done, err := admin().AlterClientQuotas(within(), []kadm.AlterClientQuotaEntry{entry})
		must(err)
		must(done[0].Err)
	}
	described := func() []kadm.DescribedClientQuota {
		found, err := admin().DescribeClientQuotas(within(), true, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: &topic}})
		must(err)
		return found
	}
	alter(false)
	until("the quota", func() bool { found := described(); return len(found) == 1 && found[0].Values[0].Value == 1e6 })
	alter(true)
	until("the quota to go", func() bool { return len(described()) == 0 })
}

func reassign(topic string) {
	wanted := slices.Clone(listed(topic).Partitions[0].Replicas[1:])
	request := kadm.AlterPartitionAssignmentsReq{}
	request.Assign(topic, 0, wanted)
	done, err := admin().AlterPartitionAssignments(within(), request)
	must(err)
	must(done.Error())
	_, err = admin().ListPartitionReassignments(within(), set(topic, 0))
	must(err)
	until("the move", func() bool { return slices.Equal(listed(topic).Partitions[0].Replicas, wanted) })
	equal(values(read(topic, 100, 0)), numbers(100))
}

func elect(topic string) {
	found, err := admin().ElectLeaders(within(), kadm.ElectPreferredReplica, set(topic, 0))
	must(err)
	if one := found[topic][0]; one.Err != nil && !errors.Is(one.Err, kerr.ElectionNotNeeded) {
		panic(one.Err)
	}
}

func comeAndGo(topic string, by door) {
	must(send(by.client(), topic, numbers(100)))
	reader := by.client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	equal(values(some(reader, 100)), numbers(100))
	reader.Close()
}

func turnedAway(by door) error { return by.client(kgo.RetryTimeout(0)).Ping(within()) }

func scramTLS(topic string) { comeAndGo(topic, secured("alice", os.Getenv("SCENE_PASSWORD"))) }

func wrongPassword(string) {
	equal(errors.Is(turnedAway(secured("alice", "wrong")), kerr.SaslAuthenticationFailed), true)
}

func bearerTokens(topic string) {
	comeAndGo(topic, bearer(os.Getenv("SCENE_TOKEN")))
	// It meets the reason that the server tells first, and does not go on to the error that would follow.
	equal(strings.Contains(fmt.Sprint(turnedAway(bearer(os.Getenv("SCENE_FORGED")))), "unexpected data in oauth response"), true)
}

func mutualTLS(topic string) {
	comeAndGo(topic, certified("alice"))
	equal(errors.Is(send(certified("bob").client(), topic, []string{"no"}), kerr.TopicAuthorizationFailed), true)
}

func accessControl(topic string) {
	bob := func() *kgo.Client { return secured("bob", os.Getenv("SCENE_PASSWORD")).client() }
	equal(errors.Is(send(bob(), topic, []string{"no"}), kerr.TopicAuthorizationFailed), true)
	acl := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Allow("User:bob").AllowHosts("*")
	made, err := admin().CreateACLs(within(), acl)
	must(err)
	must(made[0].Err)
	until("bob to be allowed", func() bool { return send(bob(), topic, []string{"yes"}) == nil })
	equal(values(read(topic, 1, 0)), []string{"yes"})
	described := func() int {
		found, err := admin().DescribeACLs(within(), acl)
		must(err)
		return len(found[0].Described)
	}
	equal(described(), 1)
	_, err = admin().DeleteACLs(within(), acl)
	must(err)
	until("the ACL to go", func() bool { return described() == 0 })
}
