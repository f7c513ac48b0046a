//go:build linux && applications

package applications

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Kafka 1.1 has ZooKeeper's client 3.4.10, and the old consumers, which divide partitions and keep their
// offsets in ZooKeeper.
func TestKafkaWithClient34(t *testing.T) {
	k := newKafka(t, "kafka-1.1", kafkaToolsByZooKeeper)
	var consumers []*program
	k.before = func() {
		for i := range 2 {
			args := append(kafkaJVM(128), "-Dlog4j.configuration=file:"+k.log4j(), "kafka.tools.ConsoleConsumer", "--zookeeper", k.addrs()+"/kafka",
				"--topic", kafkaTopic, "--from-beginning", "--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer")
			for _, property := range []string{"group.id=old", "offsets.storage=zookeeper", "auto.commit.interval.ms=500", "zookeeper.session.timeout.ms=6000",
				"rebalance.max.retries=60", "rebalance.backoff.ms=1000"} { // by default, they give up after a few seconds without a server
				args = append(args, "--consumer-property", property)
			}
			consumers = append(consumers, java(t, fmt.Sprint("consumer-", i), k.classPath, args...))
		}
		until(t, "both consumers are in the group", func() bool { return len(k.children("/kafka/consumers/old/ids")) == 2 })
	}
	k.story()
	written := k.acked() * 100 // "acked N" is printed for each hundred
	until(t, "the old consumers have read what was acknowledged", func() bool {
		read := map[int]bool{}
		for _, c := range consumers {
			text, err := os.ReadFile(c.log)
			must(t, err)
			for line := range strings.Lines(string(text)) {
				if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
					read[n] = true
				}
			}
		}
		for n := range written {
			if !read[n] {
				return false
			}
		}
		return true
	})
	owned := 0
	for p := range 6 {
		if _, found, err := k.zk.Exists(t.Context(), fmt.Sprintf("/kafka/consumers/old/owners/%s/%d", kafkaTopic, p)); err == nil && found {
			owned++
		}
	}
	if owned != 6 {
		t.Errorf("%d of 6 partitions have an owner among the old consumers", owned)
	}
}
