package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

func acks(wanted sarama.RequiredAcks) func(string) {
	return func(topic string) {
		must(send(producer(func(c *sarama.Config) { c.Producer.RequiredAcks = wanted }), topic, numbers(100)))
		equal(values(read(topic, 100, 0)), numbers(100))
	}
}

func codec(codec sarama.CompressionCodec) func(string) {
	return func(topic string) {
		wanted := numbers(500)
		for i, v := range wanted {
			wanted[i] = strings.Repeat(v, 20)
		}
		must(send(producer(func(c *sarama.Config) { c.Producer.Compression = codec }), topic, wanted))
		equal(values(read(topic, 500, 0)), wanted)
	}
}

func headers(topic string) {
	wanted := []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")}, {Key: []byte("empty"), Value: []byte{}}}
	message := messages(topic, []string{"v"})[0]
	message.Headers = wanted
	must(producer().SendMessages([]*sarama.ProducerMessage{message}))
	var found []string
	for _, h := range read(topic, 1, 0)[0].Headers {
		found = append(found, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	equal(found, []string{"a=1", "a=2", "empty="})
}

type written struct {
	key, value string
	headers    [][2]string
}

// Each record is acknowledged before the next one is sent: a decision needs a message that is stored. An empty value is null.
func through(front string, all ...written) {
	p := producer()
	for _, w := range all {
		message := &sarama.ProducerMessage{Topic: front, Key: sarama.StringEncoder(w.key)}
		if w.value != "" {
			message.Value = sarama.StringEncoder(w.value)
		}
		for _, h := range w.headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(h[0]), Value: []byte(h[1])})
		}
		must(p.SendMessages([]*sarama.ProducerMessage{message}))
	}
	must(p.Close())
}

func delayed(topic string) {
	began := time.Now()
	at := func(ms int64) [][2]string {
		return [][2]string{{"x-deliver-at-ms", fmt.Sprint(began.UnixMilli() + ms)}}
	}
	after := func(ms string) [][2]string { return [][2]string{{"x-delay-ms", ms}} }
	through(topic+".delay", written{"a", "third", at(6_000)}, written{"b", "cancelled", at(5_500)}, written{"c", "second", after("3000")},
		written{"d", "first", after("0")}, written{"b", "", nil})
	equal(values(read(topic, 3, 0)), []string{"first", "second", "third"})
	equal(time.Since(began) >= 6*time.Second, true)
}

func half(topic string) {
	var all []written
	for _, id := range []string{"1", "2", "3"} {
		all = append(all, written{"k", "order " + id, [][2]string{{"x-half-id", id}}})
	}
	for _, d := range [][2]string{{"3", "commit"}, {"2", "rollback"}, {"1", "commit"}} {
		all = append(all, written{"k", "", [][2]string{{"x-half-id", d[0]}, {"x-half", d[1]}}})
	}
	through(topic+".half", all...)
	equal(values(read(topic, 2, 0)), []string{"order 3", "order 1"})
}

func routes(topic string) {
	var all []written
	for n := 0; n < 12; n++ {
		key, fraud := []string{"paid", "eu.berlin", "us"}[n%3], []string{"yes", "no"}[n%2]
		all = append(all, written{key, fmt.Sprint("v", n), [][2]string{{"fraud", fraud}, {"n", fmt.Sprint(n)}}})
	}
	through(topic, all...)
	for suffix, matching := range map[string][]int{"-key": {0, 3, 6, 9}, "-pattern": {1, 4, 7, 10}, "-headers": {0, 2, 4, 6, 8, 10}} {
		var found, wanted []written
		for _, n := range matching {
			wanted = append(wanted, all[n])
		}
		for _, r := range read(topic+suffix, len(matching), 0) {
			w := written{key: string(r.Key), value: string(r.Value)}
			for _, h := range r.Headers {
				w.headers = append(w.headers, [2]string{string(h.Key), string(h.Value)})
			}
			found = append(found, w)
		}
		equal(found, wanted)
	}
}

func nulls(topic string) {
	must(producer().SendMessages([]*sarama.ProducerMessage{
		{Topic: topic, Value: sarama.StringEncoder("v")}, {Topic: topic, Key: sarama.StringEncoder("k")},
		{Topic: topic, Key: sarama.ByteEncoder{}, Value: sarama.ByteEncoder{}},
	}))
	var found []string
	for _, m := range read(topic, 3, 0) {
		found = append(found, fmt.Sprintf("%t %q %t %q", m.Key == nil, m.Key, m.Value == nil, m.Value))
	}
	equal(found, []string{`true "" false "v"`, `false "k" true ""`, `false "" false ""`})
}

func big(topic string) {
	wanted := make([]byte, 1_000_000)
	for i := range wanted {
		wanted[i] = byte(i % 251)
	}
	must(producer().SendMessages([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.ByteEncoder(wanted)}}))
	equal(bytes.Equal(read(topic, 1, 0)[0].Value, wanted), true)
}

func tooLarge(topic string) {
	p := producer()
	equal(errors.Is(send(p, topic, []string{strings.Repeat("x", 500_000)}), sarama.ErrMessageSizeTooLarge), true)
	must(send(p, topic, []string{"small"}))
	equal(values(read(topic, 1, 0)), []string{"small"})
}

// once is what Sarama asks of an idempotent producer.
func once(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
	c.Producer.Retry.Max = 100
}

func idempotent(topic string) {
	must(send(producer(once, func(c *sarama.Config) { c.Producer.Flush.MaxMessages = 10 }), topic, numbers(500)))
}

// whileLeaderDies writes 600 records and returns the values of the acknowledged ones.
func whileLeaderDies(topic string) []string {
	var acknowledged []string
	var reported atomic.Int32
	p := got(sarama.NewAsyncProducer(bootstrap(), settings(once)))
	var listening sync.WaitGroup
	listening.Add(2)
	go func() {
		defer listening.Done()
		for m := range p.Successes() {
			acknowledged = append(acknowledged, string(m.Value.(sarama.StringEncoder)))
			say("acked", acknowledged[len(acknowledged)-1])
			reported.Add(1)
		}
	}()
	go func() {
		defer listening.Done()
		for range p.Errors() { // not acknowledged: nothing is promised
			reported.Add(1)
		}
	}()
	for _, m := range messages(topic, numbers(600)) {
		p.Input() <- m
		time.Sleep(5 * time.Millisecond)
	}
	// Sarama drops records that wait for another attempt when it is closed.
	until("600 reports", func() bool { return reported.Load() == 600 })
	p.AsyncClose()
	listening.Wait()
	return acknowledged
}

func leaderKilled(topic string) { whileLeaderDies(topic) }

func majorityAcks(topic string) {
	acknowledged := whileLeaderDies(topic)
	// A consumer fails at once if the leader in its metadata is dead, or has not committed a record of its epoch yet (KIP-207).
	until("a leader with a known end", func() bool {
		client, err := sarama.NewClient(bootstrap(), settings())
		if err != nil {
			return false
		}
		defer client.Close()
		_, err = client.GetOffset(topic, 0, sarama.OffsetNewest)
		return err == nil
	})
	equal(values(read(topic, len(acknowledged), 0)), acknowledged)
}

func transactional(id string) sarama.SyncProducer {
	return producer(once, func(c *sarama.Config) { c.Producer.Transaction.ID = id })
}

func committedOnly(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted }

func transactions(topic string) {
	p := transactional(topic)
	for _, sent := range [][]string{{"a1", "a2"}, {"b1"}, {"c1"}} {
		must(p.BeginTxn())
		must(send(p, topic, sent))
		if sent[0] == "b1" {
			must(p.AbortTxn())
		} else {
			must(p.CommitTxn())
		}
	}
	must(p.Close())
	equal(values(read(topic, 3, 0, committedOnly)), []string{"a1", "a2", "c1"})
	equal(values(read(topic, 4, 0)), []string{"a1", "a2", "b1", "c1"})
}

func transactionOffsets(topic string) {
	read100 := values(read(topic, 100, 0))
	p := transactional(topic)
	turn := func(sent []string, offset int64) {
		must(p.BeginTxn())
		must(send(p, topic+"-out", sent))
		must(p.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: offset}}}, topic))
	}
	turn(numbers(50), 50)
	must(p.AbortTxn())
	equal(committed(topic, topic), int64(-1))
	for i, v := range read100 {
		read100[i] = "<" + v + ">"
	}
	turn(read100, 100)
	must(p.CommitTxn())
	until("the offset", func() bool { return committed(topic, topic) == 100 })
	equal(values(read(topic+"-out", 100, 0, committedOnly)), read100)
}

func fencing(topic string) {
	old := transactional(topic)
	must(old.BeginTxn())
	must(send(old, topic, []string{"old"}))
	fresh := transactional(topic)
	err := old.CommitTxn()
	equal(errors.Is(err, sarama.ErrProducerFenced) || errors.Is(err, sarama.ErrInvalidProducerEpoch) || strings.Contains(fmt.Sprint(err), "epoch"), true)
	must(fresh.BeginTxn())
	must(send(fresh, topic, []string{"new"}))
	must(fresh.CommitTxn())
	equal(values(read(topic, 1, 0, committedOnly)), []string{"new"})
}
