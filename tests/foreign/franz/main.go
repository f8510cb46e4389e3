// franz-go as its users use it: the features named as arguments, told line by line (tests/foreign/stage.py says how).
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const firstMs = 1_700_000_000_000
const longest = 60 * time.Second

var lacks = map[string]string{"streams": "Java only", "streams-group": "Java only"}

func say(words ...any) { fmt.Println(words...) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		text := fmt.Sprint(found)
		panic(fmt.Sprintf("%s instead of %v", text[:min(len(text), 200)], wanted))
	}
}

func until(what string, condition func() bool) {
	for deadline := time.Now().Add(longest); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic("waited 60 s for " + what)
		}
	}
}

func within() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), longest) //nolint:govet // the program ends soon
	return ctx
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("SCENE_BOOTSTRAP"), ",")...), kgo.FetchMaxWait(500 * time.Millisecond)}, options...)...)
	must(err)
	return made
}

func trusting() *tls.Config {
	pem, err := os.ReadFile(os.Getenv("SCENE_CA"))
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// door is how somebody comes in: as the options of a client.
type door []kgo.Opt

func (d door) client(options ...kgo.Opt) *kgo.Client {
	return client(append(append([]kgo.Opt{}, d...), options...)...)
}

func proven(how sasl.Mechanism) door {
	return door{kgo.SeedBrokers(strings.Split(os.Getenv("SCENE_SECURED"), ",")...), kgo.DialTLSConfig(trusting()), kgo.SASL(how)}
}

func secured(user, password string) door {
	return proven(scram.Auth{User: user, Pass: password}.AsSha512Mechanism())
}

func bearer(token string) door { return proven(oauth.Auth{Token: token}.AsMechanism()) }

func certified(user string) door {
	file := os.Getenv("SCENE_" + strings.ToUpper(user))
	pair, err := tls.LoadX509KeyPair(file, file)
	must(err)
	shown := trusting()
	shown.Certificates = []tls.Certificate{pair}
	return door{kgo.SeedBrokers(strings.Split(os.Getenv("SCENE_MUTUAL"), ",")...), kgo.DialTLSConfig(shown)}
}

func admin() *kadm.Client { return kadm.NewClient(client()) }

func records(topic string, values []string) []*kgo.Record {
	out := make([]*kgo.Record, len(values))
	for i, value := range values {
		out[i] = &kgo.Record{Topic: topic, Value: []byte(value)}
	}
	return out
}

func send(producer *kgo.Client, topic string, values []string) error {
	return producer.ProduceSync(within(), records(topic, values)...).FirstErr()
}

func from(topic string, offset int64) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}})
}

func poll(reader *kgo.Client, wait time.Duration) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetches := reader.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if e.Err != context.DeadlineExceeded {
			panic(e.Err)
		}
	}
	return fetches.Records()
}

func some(reader *kgo.Client, count int) (out []*kgo.Record) {
	until(fmt.Sprint(count, " records"), func() bool {
		out = append(out, poll(reader, 200*time.Millisecond)...)
		return len(out) >= count
	})
	return out
}

// read gives count records of partition 0 from an offset on, and no more than that.
func read(topic string, count int, offset int64, options ...kgo.Opt) []*kgo.Record {
	reader := client(append(options, from(topic, offset))...)
	defer reader.Close()
	out := append(some(reader, count), poll(reader, time.Second)...)
	equal(len(out), count)
	return out
}

func values(records []*kgo.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	return out
}

// Producing.

func acks(acks kgo.Acks) func(string) {
	return func(topic string) {
		options := []kgo.Opt{kgo.RequiredAcks(acks), partitionZero}
		if acks != kgo.AllISRAcks() {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		must(send(client(options...), topic, numbers(100)))
		equal(values(read(topic, 100, 0)), numbers(100))
	}
}

var partitionZero = kgo.RecordPartitioner(kgo.ManualPartitioner())

func codec(codec kgo.CompressionCodec) func(string) {
	return func(topic string) {
		wanted := numbers(500)
		for i, v := range wanted {
			wanted[i] = strings.Repeat(v, 20)
		}
		must(send(client(kgo.ProducerBatchCompression(codec), partitionZero, kgo.ProducerLinger(50*time.Millisecond)), topic, wanted))
		equal(values(read(topic, 500, 0)), wanted)
	}
}

func headers(topic string) {
	wanted := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "empty", Value: []byte{}}}
	must(client().ProduceSync(within(), &kgo.Record{Topic: topic, Value: []byte("v"), Headers: wanted}).FirstErr())
	equal(read(topic, 1, 0)[0].Headers, wanted)
}

type written struct {
	key, value string
	headers    [][2]string
}

// Each record is acknowledged before the next one is sent: a decision needs a message that is stored. An empty value is null.
func through(front string, all ...written) {
	producer := client(partitionZero)
	defer producer.Close()
	for _, w := range all {
		record := &kgo.Record{Topic: front, Key: []byte(w.key)}
		if w.value != "" {
			record.Value = []byte(w.value)
		}
		for _, h := range w.headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
		must(producer.ProduceSync(within(), record).FirstErr())
	}
}

func delayed(topic string) {
	began := time.Now()
	at := func(ms int64) [][2]string { return [][2]string{{"x-deliver-at-ms", fmt.Sprint(began.UnixMilli() + ms)}} }
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
				w.headers = append(w.headers, [2]string{h.Key, string(h.Value)})
			}
			found = append(found, w)
		}
		equal(found, wanted)
	}
}

func nulls(topic string) {
	for _, pair := range [][2][]byte{{nil, []byte("v")}, {[]byte("k"), nil}, {{}, {}}} {
		must(client().ProduceSync(within(), &kgo.Record{Topic: topic, Key: pair[0], Value: pair[1]}).FirstErr())
	}
	var found []string
	for _, r := range read(topic, 3, 0) {
		found = append(found, fmt.Sprintf("%t %q %t %q", r.Key == nil, r.Key, r.Value == nil, r.Value))
	}
	equal(found, []string{`true "" false "v"`, `false "k" true ""`, `false "" false ""`})
}

func big(topic string) {
	wanted := make([]byte, 1_000_000)
	for i := range wanted {
		wanted[i] = byte(i % 251)
	}
	must(client(kgo.ProducerBatchMaxBytes(1_040_000)).ProduceSync(within(), &kgo.Record{Topic: topic, Value: wanted}).FirstErr())
	equal(bytes.Equal(read(topic, 1, 0)[0].Value, wanted), true)
}

func idempotent(topic string) {
	must(send(client(kgo.ProducerBatchMaxBytes(600), partitionZero, kgo.ProducerBatchCompression(kgo.NoCompression())), topic, numbers(500)))
}

func leaderKilled(topic string) {
	producer := client(partitionZero, kgo.ProducerLinger(0))
	for _, value := range numbers(600) {
		producer.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(r *kgo.Record, err error) {
			if err == nil {
				say("acked", string(r.Value))
			}
		})
		time.Sleep(5 * time.Millisecond)
	}
	must(producer.Flush(within()))
}

func majorityAcks(topic string) {
	leaderKilled(topic)
	equal(values(read(topic, 600, 0)), numbers(600))
}

var features = map[string]func(string){
	"acks-0": acks(kgo.NoAck()), "acks-1": acks(kgo.LeaderAck()), "acks-all": acks(kgo.AllISRAcks()),
	"gzip": codec(kgo.GzipCompression()), "snappy": codec(kgo.SnappyCompression()), "lz4": codec(kgo.Lz4Compression()), "zstd": codec(kgo.ZstdCompression()),
	"headers": headers, "delayed": delayed, "half": half, "routes": routes, "share-letters": shareLetters, "nulls": nulls, "big": big, "too-large": tooLarge, "idempotent": idempotent, "transactions": transactions,
	"transaction-offsets": transactionOffsets, "fencing": fencing, "leader-killed": leaderKilled, "majority-acks": majorityAcks, "from-start": fromStart,
	"group": members(false), "assignor-range": members(false, kgo.Balancers(kgo.RangeBalancer())),
	"assignor-roundrobin": members(false, kgo.Balancers(kgo.RoundRobinBalancer())), "assignor-sticky": members(false, kgo.Balancers(kgo.StickyBalancer())),
	"assignor-cooperative": members(true, kgo.Balancers(kgo.CooperativeStickyBalancer())), "static": static,
	"new-protocol": newProtocol, "commits": commits, "resets": resets, "timestamps": timestamps,
	"pause": pause, "pattern": pattern, "topics": topics, "configs": configs, "groups": groups, "group-offsets": groupOffsets,
	"list-offsets": listOffsets, "delete-records": deleteRecords, "cluster": cluster, "log-dirs": logDirs, "transactions-admin": transactionsAdmin,
	"scram": scramCredentials, "quotas": quotas, "reassign": reassign, "elect": elect, "scram-tls": scramTLS, "wrong-password": wrongPassword,
	"oauth": bearerTokens, "mutual-tls": mutualTLS, "acls": accessControl,
}

func play(name string) {
	say("begin", name)
	if why, ok := lacks[name]; ok {
		say("none", name, why)
		return
	}
	defer func() {
		if e := recover(); e != nil {
			why := strings.Join(strings.Fields(fmt.Sprint(e)), " ")
			say("no", name, why[:min(len(why), 300)])
		}
	}()
	features[name](os.Getenv("SCENE_PREFIX") + name)
	say("yes", name)
}

func main() {
	for _, name := range os.Args[1:] {
		play(name)
	}
}
