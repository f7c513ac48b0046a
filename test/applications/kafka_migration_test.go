//go:build linux && applications

package applications

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
)

// kafkaNode is the id of the controller that replaces ZooKeeper.
const kafkaNode = 3000

// A cluster leaves ZooKeeper as Kafka's guide says: a controller of KRaft takes the znode of the controller,
// copies everything, and writes each change to both until the brokers have left ZooKeeper, too.
func TestKafkaMigratesAwayFromZooKeeper(t *testing.T) {
	k := newKafka(t, "kafka-3.9", kafkaToolsByBroker)
	k.step("brokers start", k.startAll)
	k.step("topic", func() { k.createTopic(kafkaTopic) })
	k.startWork()
	k.progress()

	ports := childtest.Ports(t, 2)
	quorum := []string{"controller.listener.names=CONTROLLER", fmt.Sprintf("controller.quorum.voters=%d@127.0.0.1:%d", kafkaNode, ports),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
	migration := append([]string{"zookeeper.metadata.migration.enable=true"}, quorum...)
	node := append([]string{"process.roles=controller", fmt.Sprintf("node.id=%d", kafkaNode), fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d", ports),
		"log.dirs=" + filepath.Join(k.dir, "logs-controller")}, quorum...)
	both := append([]string{"zookeeper.metadata.migration.enable=true", k.connect()}, node...)
	var controller *program
	k.step("controller of KRaft starts", func() {
		data, _, err := k.zk.Get(t.Context(), "/kafka/cluster/id")
		must(t, err)
		cluster := regexp.MustCompile(`"id":"([^"]+)"`).FindSubmatch(data)
		line := append([]string{"java", "-cp", k.classPath}, kafkaJVM(128)...)
		run(t, "format", append(line, "kafka.tools.StorageTool", "format", "--config", k.file("format.properties", both...), "--cluster-id", string(cluster[1]))...)
		controller = k.server("controller", ports+1, both)
	})
	k.step("leader of the ensemble is killed", func() { k.killLeader(); k.progress() })
	k.settings = append([]string{"inter.broker.protocol.version=3.9"}, migration...)
	k.step("brokers restart for the migration", k.restartBrokers)
	k.step("everything is copied", func() {
		controller.await(`Completed migration of metadata from ZooKeeper to KRaft`)
		until(t, "the controller of KRaft is in ZooKeeper", func() bool { return k.controller() == kafkaNode })
		k.progress()
	})
	k.step("a change is written to both while the ensemble's leader is killed", func() {
		k.killLeaderAnd(func() { k.createTopic("later") })
		until(t, "the topic is in ZooKeeper", func() bool { return len(k.children("/kafka/brokers/topics/later/partitions")) == 6 })
		k.progress()
	})
	k.step("rolling restart of the ensemble", func() { k.restartAll(k.progress) })
	k.step("a change is written to both", func() {
		k.createTopic("last")
		until(t, "the topic is in ZooKeeper", func() bool { return len(k.children("/kafka/brokers/topics/last/partitions")) == 6 })
	})
	k.withoutZooKeeper, k.settings = true, append([]string{"process.roles=broker"}, quorum...)
	k.step("brokers restart without ZooKeeper", k.restartBrokers)
	k.step("controller restarts without ZooKeeper", func() {
		k.stop(controller)
		k.server("controller", ports+1, node)
		k.progress()
	})
	for _, topic := range []string{"later", "last"} {
		if out := k.tool(k.tools.topics, "--describe", "--topic", topic); strings.Count(out, "Leader: ") != 6 {
			t.Errorf("topic %s:\n%s", topic, out)
		}
	}
	k.awaitInSync()
	k.report()
	k.endWork()
}

func (k *kafka) createTopic(name string) {
	k.t.Helper()
	k.tool(k.tools.topics, "--create", "--topic", name, "--partitions", "6", "--replication-factor", "3")
}

// restartBrokers restarts the brokers in turn.
func (k *kafka) restartBrokers() {
	for _, b := range k.brokers {
		k.stop(b.program)
		k.start(b)
		b.program.await(`started \(kafka\.server\.Kafka(Raft)?Server\)|KafkaServer .*started|KafkaRaftServer .*Kafka Server started`)
		k.progress()
	}
}

// stop ends a server of Kafka in an orderly manner.
func (k *kafka) stop(p *program) {
	k.t.Helper()
	must(k.t, p.command.Process.Signal(syscall.SIGTERM))
	<-p.ended
}
