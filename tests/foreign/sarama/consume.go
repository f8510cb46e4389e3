package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func fromStart(topic string) {
	found := values(read(topic, 3000, 0))
	for i, v := range found {
		found[i] = strings.TrimRight(v, ".")
	}
	equal(slices.Equal(found, numbers(3000)), true)
}

// member of a group; seen are the values it was brought in order, sessions how often it was given partitions.
type member struct {
	sync.Mutex
	group    sarama.ConsumerGroup
	stop     context.CancelFunc
	done     chan struct{}
	owns     []int32
	seen     []string
	sessions int
	each     func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.Lock()
	defer m.Unlock()
	m.sessions++
	for _, parts := range s.Claims() {
		m.owns = slices.Sorted(slices.Values(parts))
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.Lock()
	defer m.Unlock()
	m.owns = nil
	return nil
}

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.Lock()
			m.seen = append(m.seen, string(message.Value))
			m.Unlock()
			if m.each != nil {
				m.each(s, message)
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func join(addresses []string, config *sarama.Config, group, topic string, each func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)) *member {
	m := &member{group: got(sarama.NewConsumerGroup(addresses, group, config)), done: make(chan struct{}), each: each}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := m.group.Consume(ctx, []string{topic}, m); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.done
	must(m.group.Close())
}

func (m *member) owned() []int32 {
	m.Lock()
	defer m.Unlock()
	return slices.Clone(m.owns)
}

func (m *member) told() []string {
	m.Lock()
	defer m.Unlock()
	return slices.Clone(m.seen)
}

func strategy(s sarama.BalanceStrategy) func(*sarama.Config) {
	return func(c *sarama.Config) { c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{s} }
}

func members(change ...func(*sarama.Config)) func(string) {
	return func(topic string) {
		one := join(bootstrap(), settings(change...), topic, topic, nil)
		until("one member to own all", func() bool { return len(one.owned()) == 4 })
		two := join(bootstrap(), settings(change...), topic, topic, nil)
		until("two members to share", func() bool { return len(one.owned()) == 2 && len(two.owned()) == 2 })
		equal(slices.Sorted(slices.Values(append(one.owned(), two.owned()...))), []int32{0, 1, 2, 3})
		until("all records", func() bool {
			seen := map[string]bool{}
			for _, v := range append(one.told(), two.told()...) {
				seen[v] = true
			}
			return len(seen) == 400
		})
		two.leave()
		until("the one that stayed to own all again", func() bool { return len(one.owned()) == 4 })
		one.leave()
	}
}

func static(topic string) {
	named := func(id string) *sarama.Config {
		return settings(func(c *sarama.Config) {
			c.Consumer.Group.InstanceId = id
			c.Consumer.Group.Session.Timeout = 30 * time.Second
		})
	}
	one := join(bootstrap(), named("one"), topic, topic, nil)
	until("one member to own all", func() bool { return len(one.owned()) == 4 })
	two := join(bootstrap(), named("two"), topic, topic, nil)
	until("two members to share", func() bool { return len(one.owned()) == 2 && len(two.owned()) == 2 })
	had, sessions := two.owned(), one.sessions
	two.leave()
	two = join(bootstrap(), named("two"), topic, topic, nil)
	until("the second member to have its partitions again", func() bool { return slices.Equal(two.owned(), had) })
	time.Sleep(time.Second)
	equal(one.sessions, sessions)
	two.leave()
	one.leave()
}

func commits(topic string) {
	manual := settings(func(c *sarama.Config) { c.Consumer.Offsets.AutoCommit.Enable = false })
	read40 := make(chan struct{})
	first := join(bootstrap(), manual, topic, topic, func(s sarama.ConsumerGroupSession, m *sarama.ConsumerMessage) {
		if m.Offset == 39 {
			s.MarkMessage(m, "a note")
			s.Commit()
			close(read40)
		}
	})
	select {
	case <-read40:
	case <-time.After(longest):
		panic("waited 60 s for 40 records")
	}
	first.leave()
	equal(committed(topic, topic), int64(40))
	second := join(bootstrap(), manual, topic, topic, nil)
	until("a record", func() bool { return len(second.told()) > 0 })
	equal(second.told()[0], "40")
	second.leave()
}

func resets(topic string) {
	earliest := join(bootstrap(), settings(), topic+"-e", topic, nil)
	until("a record", func() bool { return len(earliest.told()) > 0 })
	equal(earliest.told()[0], "0")
	earliest.leave()
	reader := got(sarama.NewConsumer(bootstrap(), settings()))
	_, err := reader.ConsumePartition(topic, 0, 10_000)
	equal(errors.Is(err, sarama.ErrOffsetOutOfRange), true)
	latest := join(bootstrap(), settings(func(c *sarama.Config) { c.Consumer.Offsets.Initial = sarama.OffsetNewest }), topic+"-l", topic, nil)
	until("a record that is new", func() bool {
		must(send(producer(), topic, []string{"new"}))
		return len(latest.told()) > 0
	})
	equal(latest.told()[0], "new")
	latest.leave()
}

func timestamps(topic string) {
	client := got(sarama.NewClient(bootstrap(), settings()))
	equal(got(client.GetOffset(topic, 0, firstMs+49_500)), int64(50))
	equal(got(client.GetOffset(topic, 0, firstMs+1_000_000)), int64(-1))
	equal(values(read(topic, 50, got(client.GetOffset(topic, 0, firstMs+50_000))))[0], "50")
}

func pause(topic string) {
	reader := got(sarama.NewConsumer(bootstrap(), settings(func(c *sarama.Config) { c.ChannelBufferSize = 0 })))
	reader.Pause(map[string][]int32{topic: {0, 1}})
	zero := got(reader.ConsumePartition(topic, 0, 0))
	one := got(reader.ConsumePartition(topic, 1, 0))
	zero.Pause()
	one.Resume()
	equal(len(take(one, 100)), 100)
	select {
	case <-zero.Messages():
		panic("a paused partition brings records")
	case <-time.After(2 * time.Second):
	}
	zero.Resume()
	equal(len(take(zero, 100)), 100)
}
