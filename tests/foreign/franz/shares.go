package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setGroupConfigs sets configs of a group, for which kadm has no call.
func setGroupConfigs(group string, configs map[string]string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value, config.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(within(), client())
	must(err)
	equal(answer.Resources[0].ErrorCode, int16(0))
}

// Odd records are rejected, one is released until its deliveries are used up, the others are accepted.
func decision(number int) kgo.AckStatus {
	if number%2 == 1 {
		return kgo.AckReject
	}
	if number == 4 {
		return kgo.AckRelease
	}
	return kgo.AckAccept
}

func shareLetters(topic string) {
	letters, on := "dlq."+topic, "true"
	_, err := admin().CreateTopic(within(), 1, 3, map[string]*string{"errors.deadletterqueue.group.enable": &on}, letters)
	must(err)
	setGroupConfigs(topic, map[string]string{
		"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": letters, "errors.deadletterqueue.copy.record.enable": on,
	})
	must(send(client(partitionZero), topic, numbers(6)))
	reader := client(kgo.ShareGroup(topic), kgo.ConsumeTopics(topic))
	deliveries := make([]int, 6)
	until("the last delivery", func() bool {
		for _, r := range poll(reader, 200*time.Millisecond) {
			number, err := strconv.Atoi(string(r.Value))
			must(err)
			deliveries[number]++
			reader.MarkAcks(decision(number), r)
		}
		must(reader.FlushAcks(within()))
		return deliveries[4] == 5 && deliveries[0]*deliveries[1]*deliveries[2]*deliveries[3]*deliveries[5] > 0
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); { // dead letters are written while a member fetches
		poll(reader, 200*time.Millisecond)
	}
	reader.Close()
	equal(deliveries, []int{1, 1, 1, 1, 5, 1})
	found := map[string]string{}
	for _, r := range read(letters, 4, 0) {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[strings.TrimPrefix(h.Key, "__dlq.errors.")] = string(h.Value)
		}
		equal(headers["topic"]+headers["partition"]+headers["group"], topic+"0"+topic)
		equal(headers["offset"], string(r.Value))
		found[string(r.Value)] = fmt.Sprint(headers["delivery.count"], " ", headers["message"])
	}
	rejected := "1 Offset rejected by client."
	equal(found, map[string]string{"1": rejected, "3": rejected, "4": "5 Offset delivery count exceeded the threshold.", "5": rejected})
}
