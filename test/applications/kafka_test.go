//go:build linux && applications

package applications

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
)

// kafkaTopic is the topic of the work.
const kafkaTopic = "work"

// A kafka is a cluster of three brokers, whose znodes are below the chroot /kafka.
type kafka struct {
	*scene
	name      string // its project in pom
	classPath string
	tools     kafkaTools
	dir       string
	settings  []string // additional lines of server.properties
	flags     []string // additional flags of the brokers' JVMs
	listener  string   // the protocol of the only listener
	admin     []string // properties of the operator's tools
	user      []string // properties of the work
	before    func()   // what comes before the work, nil if nothing does

	withoutZooKeeper bool // the brokers have a controller of their own (KRaft)

	brokers []*kafkaBroker
	zk      *client.Client
	work    *program
	asked   int // how often the work was asked what the brokers measure
	expired int // sessions of running brokers that had to expire
}

type kafkaBroker struct {
	id, port, jmx int
	program       *program
}

// kafkaTools are the command lines of an operator's tools, which changed with the versions. Each names a
// class, and takes the brokers' or the servers' addresses.
type kafkaTools struct {
	topics, reassign, elect, configs []string
}

// Since 3.0 most tools ask the brokers; before, they read and wrote znodes themselves.
var (
	kafkaToolsByBroker = kafkaTools{
		topics:   []string{"org.apache.kafka.tools.TopicCommand", "--bootstrap-server"},
		reassign: []string{"org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server"},
		elect:    []string{"org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions", "--bootstrap-server"},
		configs:  []string{"kafka.admin.ConfigCommand", "--bootstrap-server"},
	}
	kafkaToolsByZooKeeper = kafkaTools{
		topics:   []string{"kafka.admin.TopicCommand", "--zookeeper"},
		reassign: []string{"kafka.admin.ReassignPartitionsCommand", "--zookeeper"},
		elect:    []string{"kafka.admin.PreferredReplicaLeaderElectionCommand", "--zookeeper"},
		configs:  []string{"kafka.admin.ConfigCommand", "--zookeeper"},
	}
)

func TestKafka(t *testing.T) {
	newKafka(t, "kafka-3.9", kafkaToolsByBroker).story()
}

// Kafka 2.4 has ZooKeeper's client 3.5.7, and its tools still write znodes.
func TestKafkaWithClient35(t *testing.T) {
	newKafka(t, "kafka-2.4", kafkaToolsByZooKeeper).story()
}

func newKafka(t *testing.T, project string, tools kafkaTools) *kafka {
	t.Helper()
	return &kafka{scene: newScene(t), name: project, classPath: jars(t, project), tools: tools, dir: t.TempDir(), listener: "PLAINTEXT"}
}

// story is what every cluster goes through.
func (k *kafka) story() {
	k.step("brokers start", k.startAll)
	k.step("topic", func() { k.createTopic(kafkaTopic) })
	if k.before != nil {
		k.step("before the work", k.before)
	}
	k.startWork()
	k.progress()
	k.step("leader of the ensemble is killed", func() { k.killLeader(); k.progress() })
	k.step("controller is killed", k.killController)
	k.step("configuration of a topic", func() {
		k.tool(k.tools.configs, "--alter", "--entity-type", "topics", "--entity-name", kafkaTopic, "--add-config", "retention.ms=7200000")
		if out := k.tool(k.tools.configs, "--describe", "--entity-type", "topics", "--entity-name", kafkaTopic); !strings.Contains(out, "retention.ms=7200000") {
			k.t.Fatalf("the configuration of the topic is not there:\n%s", out)
		}
	})
	k.step("reassignment to two replicas and back to three", func() { k.reassign(2); k.reassign(3) })
	k.step("preferred leaders", func() { k.tool(k.tools.elect); k.awaitPreferred() })
	k.step("leader of the ensemble and controller are killed", func() { k.killLeaderAnd(k.killController) })
	k.step("leader of the ensemble is frozen", k.freezeServer)
	k.step("rolling restart of the ensemble", func() { k.restartAll(k.progress) })
	k.step("controller is frozen until its session has expired", k.freezeController)
	k.step("all replicas are in sync", k.awaitInSync)
	k.judge()
}

func (k *kafka) startAll() {
	for id := range 3 {
		ports := childtest.Ports(k.t, 2)
		k.brokers = append(k.brokers, &kafkaBroker{id: id + 1, port: ports, jmx: ports + 1})
	}
	for _, b := range k.brokers {
		k.start(b)
	}
	k.dial()
	until(k.t, "three brokers are registered", func() bool { return len(k.children("/kafka/brokers/ids")) == 3 })
}

// dial gives the test a session of its own.
func (k *kafka) dial() {
	k.t.Helper()
	zk, err := client.Dial(k.t.Context(), k.addrs(), client.Options{SessionTimeout: 20 * time.Second})
	must(k.t, err)
	k.t.Cleanup(func() { _ = zk.Close() })
	k.zk = zk
}

// start starts a broker on its own directory.
func (k *kafka) start(b *kafkaBroker) {
	k.t.Helper()
	lines := append([]string{
		fmt.Sprintf("listeners=%s://127.0.0.1:%d", k.listener, b.port),
		"security.inter.broker.protocol=" + k.listener,
		"log.dirs=" + filepath.Join(k.dir, fmt.Sprint("logs-", b.id)),
		"default.replication.factor=3", "min.insync.replicas=2",
		"offsets.topic.replication.factor=3", "offsets.topic.num.partitions=5",
		"transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
		"group.initial.rebalance.delay.ms=0", "replica.lag.time.max.ms=5000",
		"auto.leader.rebalance.enable=false", "log.cleaner.dedupe.buffer.size=8388608",
		"num.network.threads=2", "num.io.threads=4",
	}, k.settings...)
	if k.withoutZooKeeper {
		lines = append(lines, fmt.Sprintf("node.id=%d", b.id))
	} else {
		lines = append(lines, fmt.Sprintf("broker.id=%d", b.id), "zookeeper.session.timeout.ms=6000", k.connect())
	}
	b.program = k.server(fmt.Sprint("broker-", b.id), b.jmx, lines)
}

// connect is the setting that names the servers of the ensemble.
func (k *kafka) connect() string { return "zookeeper.connect=" + k.addrs() + "/kafka" }

// server starts a server of Kafka.
func (k *kafka) server(name string, jmx int, settings []string) *program {
	k.t.Helper()
	args := append(kafkaJVM(256), "-Dlog4j.configuration=file:"+k.log4j(), "-Dcom.sun.management.jmxremote.authenticate=false",
		"-Dcom.sun.management.jmxremote.ssl=false", "-Dcom.sun.management.jmxremote.host=127.0.0.1", "-Djava.rmi.server.hostname=127.0.0.1",
		fmt.Sprintf("-Dcom.sun.management.jmxremote.port=%d", jmx), fmt.Sprintf("-Dcom.sun.management.jmxremote.rmi.port=%d", jmx))
	return java(k.t, name, k.classPath, append(append(args, k.flags...), "kafka.Kafka", k.file(name+".properties", settings...))...)
}

// kafkaJVM are flags for short starts in little memory.
func kafkaJVM(heapMiB int) []string {
	return []string{fmt.Sprintf("-Xmx%dm", heapMiB), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

func (k *kafka) log4j() string {
	return k.file("log4j.properties", "log4j.rootLogger=INFO, out", "log4j.appender.out=org.apache.log4j.ConsoleAppender",
		"log4j.appender.out.layout=org.apache.log4j.PatternLayout", "log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n")
}

// file writes a file, and returns its name.
func (k *kafka) file(name string, lines ...string) string {
	k.t.Helper()
	return kafkaFile(k.t, k.dir, name, lines...)
}

func kafkaFile(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// bootstrap returns the brokers' addresses.
func (k *kafka) bootstrap() string {
	var addrs []string
	for _, b := range k.brokers {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", b.port))
	}
	return strings.Join(addrs, ",")
}

// tool runs a tool to its end.
func (k *kafka) tool(tool []string, args ...string) string {
	k.t.Helper()
	where := k.addrs() + "/kafka"
	if tool[len(tool)-1] == "--bootstrap-server" {
		where = k.bootstrap()
		if len(k.admin) > 0 {
			flag := "--command-config"
			if strings.Contains(tool[0], "LeaderElection") {
				flag = "--admin.config"
			}
			args = append(args, flag, k.file("admin.properties", k.admin...))
		}
	}
	line := append([]string{"java", "-cp", k.classPath}, kafkaJVM(128)...)
	line = append(append(line, k.flags...), tool...)
	if last := len(line) - 1; strings.HasSuffix(line[last], "=") {
		line[last] += where
	} else {
		line = append(line, where)
	}
	return run(k.t, tool[0], append(line, args...)...)
}

// startWork starts what writes and reads the topic.
func (k *kafka) startWork() {
	source, err := filepath.Abs("java/KafkaWork.java")
	must(k.t, err)
	common := k.file("client.properties", k.user...)
	k.work = java(k.t, "work", k.classPath, append(kafkaJVM(128), source, k.bootstrap(), kafkaTopic, "group", common)...)
}

// acked returns how many records the work knows to be written.
func (k *kafka) acked() int {
	text, err := os.ReadFile(k.work.log)
	must(k.t, err)
	return strings.Count(string(text), " acked ")
}

// progress waits until 300 more records are written.
func (k *kafka) progress() {
	k.t.Helper()
	before := k.acked()
	until(k.t, "more records are written", func() bool { return k.acked() >= before+3 })
}

// killController kills the broker that is the controller, waits for the next one and for progress, and
// starts the broker again.
func (k *kafka) killController() {
	k.t.Helper()
	old := k.controller()
	k.brokers[old-1].program.kill()
	until(k.t, "another broker is the controller", func() bool { id := k.controller(); return id != 0 && id != old })
	k.progress()
	k.start(k.brokers[old-1])
	until(k.t, "the broker is registered again", func() bool { return len(k.children("/kafka/brokers/ids")) == 3 })
	k.progress()
}

// freezeServer pauses the ensemble's leader until the others have another one.
func (k *kafka) freezeServer() {
	k.t.Helper()
	old, err := k.ensemble.AwaitLeader(k.t.Context())
	must(k.t, err)
	old.Pause()
	until(k.t, "another server leads", func() bool { l := k.ensemble.Leader(); return l != nil && l != old })
	k.progress()
	old.Resume()
	must(k.t, old.AwaitMode(k.t.Context(), "follower"))
	k.progress()
}

// freezeController pauses the broker that is the controller until another one is, and its znode is gone.
func (k *kafka) freezeController() {
	k.t.Helper()
	old := k.controller()
	process := k.brokers[old-1].program.command.Process
	must(k.t, process.Signal(syscall.SIGSTOP))
	until(k.t, "another broker is the controller", func() bool { id := k.controller(); return id != 0 && id != old })
	until(k.t, "the broker is no longer registered", func() bool { return len(k.children("/kafka/brokers/ids")) == 2 })
	k.progress()
	must(k.t, process.Signal(syscall.SIGCONT))
	k.expired++
	until(k.t, "the broker is registered again", func() bool { return len(k.children("/kafka/brokers/ids")) == 3 })
	k.progress()
}

// controller returns the id of the controller, 0 while there is none.
func (k *kafka) controller() int {
	data, _, err := k.zk.Get(k.t.Context(), "/kafka/controller")
	if err != nil {
		return 0
	}
	var c struct {
		BrokerID int `json:"brokerid"`
	}
	must(k.t, json.Unmarshal(data, &c))
	return c.BrokerID
}

func (k *kafka) children(path string) []string {
	names, _, err := k.zk.Children(k.t.Context(), path)
	if err != nil {
		return nil
	}
	return names
}

// reassign gives each partition other replicas, in another order, while the work goes on.
func (k *kafka) reassign(replicas int) {
	type partition struct {
		Topic     string `json:"topic"`
		Partition int    `json:"partition"`
		Replicas  []int  `json:"replicas"`
	}
	plan := struct {
		Version    int         `json:"version"`
		Partitions []partition `json:"partitions"`
	}{Version: 1}
	for p := range 6 {
		brokers := []int{(p+replicas)%3 + 1, (p+replicas+1)%3 + 1, (p+replicas+2)%3 + 1}
		plan.Partitions = append(plan.Partitions, partition{kafkaTopic, p, brokers[:replicas]})
	}
	text, err := json.Marshal(plan)
	must(k.t, err)
	file := k.file("reassign.json", string(text))
	k.tool(k.tools.reassign, "--reassignment-json-file", file, "--execute")
	until(k.t, "the reassignment is complete", func() bool {
		out := k.tool(k.tools.reassign, "--reassignment-json-file", file, "--verify")
		return !strings.Contains(out, "in progress") && strings.Count(out, "complete") >= 6
	})
}

var kafkaPartition = regexp.MustCompile(`Leader: (\d+)\s+Replicas: (\d+)[\d,]*\s+Isr: ([\d,]+)`)

// partitions returns leader, first replica and replicas in sync of each partition of the topic.
func (k *kafka) partitions() [][]string {
	out := k.tool(k.tools.topics, "--describe", "--topic", kafkaTopic)
	all := kafkaPartition.FindAllStringSubmatch(out, -1)
	if len(all) != 6 {
		k.t.Fatalf("not six partitions:\n%s", out)
	}
	return all
}

func (k *kafka) awaitPreferred() {
	until(k.t, "the first replica of each partition leads it", func() bool {
		return !slices.ContainsFunc(k.partitions(), func(p []string) bool { return p[1] != p[2] })
	})
}

func (k *kafka) awaitInSync() {
	until(k.t, "three replicas of each partition are in sync", func() bool {
		return !slices.ContainsFunc(k.partitions(), func(p []string) bool { return strings.Count(p[3], ",") != 2 })
	})
}

// judge checks what is left of the work.
func (k *kafka) judge() {
	k.asked++
	line := fmt.Sprint("jmx ", k.asked)
	for _, b := range k.brokers {
		line += fmt.Sprint(" ", b.jmx)
	}
	k.work.say(line)
	measured := k.work.await(fmt.Sprintf(`jmx %d (.*)\n`, k.asked))[1]
	k.t.Log("brokers: " + measured)
	if !strings.HasPrefix(measured, fmt.Sprintf("controllers=1 expired=%d ", k.expired)) {
		k.t.Errorf("there is not exactly one controller, or not just %d sessions have expired: %s", k.expired, measured)
	}
	k.report()
	k.endWork()
}

// endWork checks that all that was acknowledged is there once.
func (k *kafka) endWork() {
	k.work.say("end")
	result := k.work.await(`result (.*)\n`)[1]
	k.t.Log("work: " + result)
	if !strings.Contains(result, " missing=0 twice=0 failed=0 ") {
		k.t.Error("not all that was acknowledged is there once")
	}
}

// report prints what the servers have to say.
func (k *kafka) report() {
	k.figures(k.name)
	for _, m := range k.ensemble.Members {
		for line := range strings.Lines(m.Log()) {
			if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") {
				k.t.Logf("server %d: %.300s", m.ID, strings.TrimSpace(line))
			}
		}
	}
}
