package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func tooLarge(topic string) {
	producer := client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := send(producer, topic, []string{strings.Repeat("x", 500_000)})
	equal(errors.Is(err, kerr.MessageTooLarge), true)
	must(send(producer, topic, []string{"small"}))
	equal(values(read(topic, 1, 0)), []string{"small"})
}

func transactions(topic string) {
	producer := client(kgo.TransactionalID(topic))
	for _, sent := range [][]string{{"a1", "a2"}, {"b1"}, {"c1"}} {
		must(producer.BeginTransaction())
		must(send(producer, topic, sent))
		must(producer.EndTransaction(within(), kgo.TransactionEndTry(sent[0] != "b1")))
	}
	equal(values(read(topic, 3, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted()))), []string{"a1", "a2", "c1"})
	equal(values(read(topic, 4, 0)), []string{"a1", "a2", "b1", "c1"})
}

func committed(group, topic string) int64 {
	found, err := admin().FetchOffsetsForTopics(within(), group, topic)
	must(err)
	one, _ := found.Lookup(topic, 0)
	return one.At
}

func transactionOffsets(topic string) {
	session, err := kgo.NewGroupTransactSession(append(seeds(), kgo.TransactionalID(topic), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(), kgo.DefaultProduceTopic(topic+"-out"))...)
	must(err)
	defer session.Close()
	done := 0
	for turn := 0; done < 100; turn++ {
		fetches := session.PollFetches(within())
		equal(len(fetches.Errors()), 0)
		must(session.Begin())
		for _, r := range fetches.Records() {
			session.Produce(context.Background(), &kgo.Record{Value: []byte("<" + string(r.Value) + ">")}, nil)
		}
		ok, err := session.End(within(), kgo.TransactionEndTry(turn > 0))
		must(err)
		if turn == 0 {
			equal(committed(topic, topic), int64(-1))
		} else if ok {
			done += fetches.NumRecords()
		}
	}
	equal(committed(topic, topic), int64(100))
	wanted := numbers(100)
	for i, v := range wanted {
		wanted[i] = "<" + v + ">"
	}
	equal(values(read(topic+"-out", 100, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted()))), wanted)
}

func fencing(topic string) {
	old := client(kgo.TransactionalID(topic))
	must(old.BeginTransaction())
	must(send(old, topic, []string{"old"}))
	fresh := client(kgo.TransactionalID(topic))
	must(fresh.BeginTransaction())
	must(send(fresh, topic, []string{"new"}))
	err := old.EndTransaction(within(), kgo.TryCommit)
	equal(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), true)
	must(fresh.EndTransaction(within(), kgo.TryCommit))
	equal(values(read(topic, 1, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted()))), []string{"new"})
}

func fromStart(topic string) {
	found := values(read(topic, 3000, 0))
	for i, v := range found {
		found[i] = strings.TrimRight(v, ".")
	}
	equal(slices.Equal(found, numbers(3000)), true)
}

// member of a group; seen are the values it was brought, lost the partitions it gave up.
type member struct {
	*kgo.Client
	mutex       sync.Mutex
	owns, lost  map[int32]bool
	seen        map[string]bool
	everAssigns int
}

func join(group, topic string, options ...kgo.Opt) *member {
	m := &member{owns: map[int32]bool{}, lost: map[int32]bool{}, seen: map[string]bool{}}
	assigned := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.everAssigns++
		for _, p := range parts[topic] {
			m.owns[p] = true
		}
	}
	revoked := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		for _, p := range parts[topic] {
			delete(m.owns, p)
			m.lost[p] = true
		}
	}
	m.Client = client(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(assigned), kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(revoked)}, options...)...)
	return m
}

func (m *member) owned() []int32 {
	for _, r := range poll(m.Client, 100*time.Millisecond) {
		m.seen[string(r.Value)] = true
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var out []int32
	for p := range m.owns {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func members(cooperative bool, options ...kgo.Opt) func(string) {
	return func(topic string) { share(topic, cooperative, options...) }
}

func share(topic string, cooperative bool, options ...kgo.Opt) {
	one := join(topic, topic, options...)
	until("one member to own all", func() bool { return len(one.owned()) == 4 })
	two := join(topic, topic, options...)
	until("two members to share", func() bool { a, b := one.owned(), two.owned(); return len(a) == 2 && len(b) == 2 })
	both := append(one.owned(), two.owned()...)
	if cooperative {
		for _, p := range one.owned() {
			equal(one.lost[p], false)
		}
	}
	slices.Sort(both)
	equal(both, []int32{0, 1, 2, 3})
	until("all records", func() bool {
		one.owned()
		two.owned()
		for v := range two.seen {
			one.seen[v] = true
		}
		return len(one.seen) == 400
	})
	two.Close()
	until("the one that stayed to own all again", func() bool { return len(one.owned()) == 4 })
	one.Close()
}

// newProtocol is sure that the new protocol is spoken: a client that falls back silently would look the same.
func newProtocol(topic string) {
	share(topic, false, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	found, err := admin().ListGroupsByType(within(), []string{"consumer"})
	must(err)
	_, ok := found[topic]
	equal(ok, true)
}

func static(topic string) {
	options := func(id string) []kgo.Opt { return []kgo.Opt{kgo.InstanceID(id), kgo.SessionTimeout(30 * time.Second)} }
	one := join(topic, topic, options("one")...)
	until("one member to own all", func() bool { return len(one.owned()) == 4 })
	two := join(topic, topic, options("two")...)
	until("two members to share", func() bool { a, b := one.owned(), two.owned(); return len(a) == 2 && len(b) == 2 })
	had := two.owned()
	two.Close()
	one.lost = map[int32]bool{}
	two = join(topic, topic, options("two")...)
	until("the second member to have its partitions again", func() bool { one.owned(); return slices.Equal(two.owned(), had) })
	equal(len(one.lost), 0)
	two.Close()
	one.Close()
}

func grouped(group, topic string, options ...kgo.Opt) *kgo.Client {
	return client(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
}

func commits(topic string) {
	first := grouped(topic, topic)
	some(first, 40)
	first.CommitOffsetsSync(within(), map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 40}}}, nil)
	first.Close()
	equal(committed(topic, topic), int64(40))
	second := grouped(topic, topic)
	equal(values(some(second, 1))[0], "40")
	second.Close()
}

func resets(topic string) {
	earliest := client(from(topic, 10_000), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	equal(values(some(earliest, 1))[0], "0")
	earliest.Close()
	none := client(from(topic, 10_000), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	err := none.PollFetches(within()).Err()
	equal(errors.Is(err, kerr.OffsetOutOfRange), true)
	none.Close()
	latest := grouped(topic+"-l", topic, kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	var found []*kgo.Record
	until("a record that is new", func() bool {
		must(send(client(), topic, []string{"new"}))
		found = append(found, poll(latest, 500*time.Millisecond)...)
		return len(found) > 0
	})
	equal(values(found)[0], "new")
	latest.Close()
}

func timestamps(topic string) {
	at := func(ms int64) int64 {
		found, err := admin().ListOffsetsAfterMilli(within(), ms, topic)
		must(err)
		return found[topic][0].Offset
	}
	equal(at(firstMs+49_500), int64(50))
	equal(at(firstMs+1_000_000), int64(100)) // kadm answers the end where there is none
	reader := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AfterMilli(firstMs + 50_000)}}))
	equal(values(some(reader, 1))[0], "50")
	reader.Close()
}

func pause(topic string) {
	start := kgo.NewOffset().AtStart()
	reader := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: start, 1: start}}))
	reader.PauseFetchPartitions(map[string][]int32{topic: {0}})
	only := func(records []*kgo.Record, partition int32) {
		equal(len(records), 100)
		for _, r := range records {
			equal(r.Partition, partition)
		}
	}
	only(some(reader, 100), 1)
	equal(len(poll(reader, 2*time.Second)), 0)
	reader.ResumeFetchPartitions(map[string][]int32{topic: {0}})
	only(some(reader, 100), 0)
	reader.Close()
}

func pattern(topic string) {
	reader := client(kgo.ConsumerGroup(topic), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(topic)+".*"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	found := map[string]int{}
	for _, r := range some(reader, 100) {
		found[r.Topic]++
	}
	equal(fmt.Sprint(found), fmt.Sprint(map[string]int{topic: 50, topic + "-two": 50}))
	reader.Close()
}
