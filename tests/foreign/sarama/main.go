// Sarama as its users use it: the features named as arguments, told line by line (tests/foreign/stage.py says how).
package main

import (
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const firstMs = 1_700_000_000_000
const longest = 60 * time.Second

var lacks = map[string]string{
	"assignor-cooperative": "no incremental rebalance",
	"new-protocol":         "classic groups only",
	"pattern":              "no subscription by pattern",
	"transactions-admin":   "no call of ClusterAdmin's",
	"streams":              "Java only",
	"streams-group":        "Java only",
	"share-letters":        "no share groups",
}

func say(words ...any) { fmt.Println(words...) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
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

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

func bootstrap() []string { return strings.Split(os.Getenv("SCENE_BOOTSTRAP"), ",") }

// settings are Sarama's defaults but for the version it speaks (its own default is older than what brokers serve) and what tests need to hear.
func settings(change ...func(*sarama.Config)) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Metadata.AllowAutoTopicCreation = false
	for _, f := range change {
		f(c)
	}
	return c
}

// xdg is the SCRAM client that Sarama leaves to its users.
type xdg struct{ talk *scram.ClientConversation }

func (x *xdg) Begin(user, password, authz string) error {
	client, err := scram.HashGeneratorFcn(sha512.New).NewClient(user, password, authz)
	if err == nil {
		x.talk = client.NewConversation()
	}
	return err
}
func (x *xdg) Step(challenge string) (string, error) { return x.talk.Step(challenge) }
func (x *xdg) Done() bool                            { return x.talk.Done() }

// door is how somebody comes in: the addresses of a listener, and the settings for it.
func door(at string, certificates []tls.Certificate, change func(*sarama.Config)) ([]string, *sarama.Config) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(got(os.ReadFile(os.Getenv("SCENE_CA"))))
	return strings.Split(os.Getenv(at), ","), settings(func(c *sarama.Config) {
		c.Net.TLS.Enable = true
		c.Net.TLS.Config = &tls.Config{RootCAs: pool, Certificates: certificates}
	}, change)
}

func certified(user string) ([]string, *sarama.Config) {
	file := os.Getenv("SCENE_" + strings.ToUpper(user))
	return door("SCENE_MUTUAL", []tls.Certificate{got(tls.LoadX509KeyPair(file, file))}, func(*sarama.Config) {})
}

// given is a provider of one token.
type given string

func (g given) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(g)}, nil
}

func bearer(token string) ([]string, *sarama.Config) {
	return door("SCENE_SECURED", nil, func(c *sarama.Config) {
		c.Net.SASL.Enable = true
		c.Net.SASL.Mechanism = sarama.SASLTypeOAuth
		c.Net.SASL.TokenProvider = given(token)
	})
}

func secured(user, password string) ([]string, *sarama.Config) {
	return door("SCENE_SECURED", nil, func(c *sarama.Config) {
		c.Net.SASL.Enable = true
		c.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
		c.Net.SASL.User, c.Net.SASL.Password = user, password
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &xdg{} }
	})
}

func producer(change ...func(*sarama.Config)) sarama.SyncProducer {
	return got(sarama.NewSyncProducer(bootstrap(), settings(change...)))
}

func messages(topic string, values []string) []*sarama.ProducerMessage {
	out := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		out[i] = &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
	}
	return out
}

func send(p sarama.SyncProducer, topic string, values []string) error {
	err := p.SendMessages(messages(topic, values))
	var all sarama.ProducerErrors
	if errors.As(err, &all) {
		return all[0].Err
	}
	return err
}

// read gives count messages of partition 0 from an offset on, and no more than that.
func read(topic string, count int, offset int64, change ...func(*sarama.Config)) []*sarama.ConsumerMessage {
	reader := got(sarama.NewConsumer(bootstrap(), settings(change...)))
	defer reader.Close()
	partition := got(reader.ConsumePartition(topic, 0, offset))
	out := take(partition, count)
	select {
	case more := <-partition.Messages():
		panic(fmt.Sprint("more than wanted: ", string(more.Value)))
	case <-time.After(time.Second):
	}
	return out
}

func take(partition sarama.PartitionConsumer, count int) (out []*sarama.ConsumerMessage) {
	late := time.After(longest)
	for len(out) < count {
		select {
		case m := <-partition.Messages():
			out = append(out, m)
		case <-late:
			panic(fmt.Sprint("waited 60 s for ", count, " records, has ", len(out)))
		}
	}
	return out
}

func values(messages []*sarama.ConsumerMessage) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = string(m.Value)
	}
	return out
}

var features = map[string]func(string){
	"acks-0": acks(sarama.NoResponse), "acks-1": acks(sarama.WaitForLocal), "acks-all": acks(sarama.WaitForAll),
	"gzip": codec(sarama.CompressionGZIP), "snappy": codec(sarama.CompressionSnappy), "lz4": codec(sarama.CompressionLZ4), "zstd": codec(sarama.CompressionZSTD),
	"headers": headers, "delayed": delayed, "half": half, "routes": routes, "nulls": nulls, "big": big, "too-large": tooLarge, "idempotent": idempotent, "transactions": transactions,
	"transaction-offsets": transactionOffsets, "fencing": fencing, "leader-killed": leaderKilled, "majority-acks": majorityAcks, "from-start": fromStart,
	"group": members(), "assignor-range": members(strategy(sarama.NewBalanceStrategyRange())),
	"assignor-roundrobin": members(strategy(sarama.NewBalanceStrategyRoundRobin())), "assignor-sticky": members(strategy(sarama.NewBalanceStrategySticky())),
	"static": static, "commits": commits, "resets": resets, "timestamps": timestamps, "pause": pause,
	"topics": topics, "configs": configs, "groups": groups, "group-offsets": groupOffsets,
	"list-offsets": listOffsets, "delete-records": deleteRecords, "cluster": cluster, "log-dirs": logDirs,
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
