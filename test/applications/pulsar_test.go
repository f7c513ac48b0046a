//go:build linux && applications

package applications

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

// A pulsar is two brokers on three bookies, all of whose metadata is in ZooKeeper.
type pulsar struct {
	*bookkeeper
	brokers []*pulsarBroker
	web     http.Client
}

type pulsarBroker struct {
	dir       string
	port, web int
	program   *program
}

// TestPulsar kills brokers, the one that leads them, and leaders of the ensemble while messages are sent.
func TestPulsar(t *testing.T) {
	b := &bookkeeper{scene: newScene(t), classPath: jars(t, "pulsar"), dir: t.TempDir()}
	p := &pulsar{bookkeeper: b, web: http.Client{Timeout: 5 * time.Second}}
	p.step("start", func() {
		p.bookkeeper.startAll()
		p.startBrokers()
		p.startWork()
		p.progress()
	})
	p.figures("under load")
	for range 2 {
		p.step("leader of the ensemble is killed", func() { p.killLeader(); p.progress() })
	}
	p.step("30 namespaces and topics, leader killed meanwhile", func() {
		p.work.say("create 30")
		p.work.awaitMore("(created )", 5)
		p.killLeader()
		p.work.awaitMore("(created )", 10)
		p.progress()
	})
	p.step("leading broker is killed", func() { p.killLeading(func() {}) })
	p.step("leading broker and leader of the ensemble are killed", func() { p.killLeading(p.killLeader) })
	p.step("leading broker is frozen until it leads no more", p.freezeLeading)
	p.step("rolling restart of the ensemble", func() { p.restartAll(p.progress) })
	p.step("all is read", p.judge)
}

func (p *pulsar) startBrokers() {
	web := make([]string, 2)
	for n := range 2 {
		ports := childtest.Ports(p.t, 2)
		p.brokers = append(p.brokers, &pulsarBroker{dir: p.t.TempDir(), port: ports, web: ports + 1})
		web[n] = fmt.Sprintf("127.0.0.1:%d", ports+1)
	}
	run(p.t, "metadata", p.line("org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", "c", "--metadata-store", "zk:"+p.addrs(),
		"--configuration-metadata-store", "zk:"+p.addrs(), "--web-service-url", "http://"+web[0])...)
	for _, b := range p.brokers {
		p.startBroker(b)
	}
	p.awaitLeading(nil)
	p.awaitBrokers(2)
}

func (p *pulsar) startBroker(b *pulsarBroker) {
	p.t.Helper()
	file := filepath.Join(b.dir, "broker.conf")
	must(p.t, os.WriteFile(file, []byte(strings.Join([]string{
		"clusterName=c", "metadataStoreUrl=zk:" + p.addrs(), "configurationMetadataStoreUrl=zk:" + p.addrs(),
		"metadataStoreSessionTimeoutMillis=6000", "bindAddress=127.0.0.1", "advertisedAddress=127.0.0.1",
		fmt.Sprintf("brokerServicePort=%d", b.port), fmt.Sprintf("webServicePort=%d", b.web),
		"managedLedgerDefaultEnsembleSize=2", "managedLedgerDefaultWriteQuorum=2", "managedLedgerDefaultAckQuorum=2",
		"managedLedgerMaxEntriesPerLedger=100", "managedLedgerMinLedgerRolloverTimeMinutes=0", "managedLedgerCacheSizeMB=16",
		"brokerDeduplicationEnabled=true", "defaultRetentionTimeInMinutes=-1", "defaultRetentionSizeInMB=-1",
		"brokerDeleteInactiveTopicsEnabled=false", "allowAutoTopicCreation=true",
		"loadBalancerOverrideBrokerNicSpeedGbps=1", "defaultNumberOfNamespaceBundles=4", "systemTopicEnabled=false", "topicLevelPoliciesEnabled=false",
		"numIOThreads=2", "numHttpServerThreads=8", "numOrderedExecutorThreads=2", "numExecutorThreadPoolSize=2", "numCacheExecutorThreadPoolSize=2",
		"bookkeeperNumberOfChannelsPerBookie=1", "webSocketServiceEnabled=false", "brokerShutdownTimeoutMs=5000",
	}, "\n")+"\n"), 0o644))
	b.program = start(p.t, fmt.Sprint("broker-", b.port), p.line("org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", file)...)
	until(p.t, "the broker serves", func() bool { return p.get(b, "brokers/ready", nil) == nil })
}

// get asks a broker's admin port.
func (p *pulsar) get(b *pulsarBroker, path string, into any) error {
	answer, err := p.web.Get(fmt.Sprintf("http://127.0.0.1:%d/admin/v2/%s", b.web, path))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, answer.Status, body)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// awaitLeading waits until all brokers but the given one, which does not run, know the same leader, and it is not that one.
func (p *pulsar) awaitLeading(not *pulsarBroker) *pulsarBroker {
	p.t.Helper()
	var found *pulsarBroker
	eventually(p.t, "one broker leads", func() error {
		found = nil
		for _, b := range p.brokers {
			if b == not {
				continue
			}
			var leader struct{ ServiceURL string }
			if err := p.get(b, "brokers/leaderBroker", &leader); err != nil {
				return err
			}
			for _, one := range p.brokers {
				if strings.HasSuffix(leader.ServiceURL, fmt.Sprint(":", one.web)) && one != not {
					if found != nil && found != one {
						return fmt.Errorf("two leaders: %s and %d", leader.ServiceURL, found.web)
					}
					found = one
				}
			}
			if found == nil {
				return fmt.Errorf("%d says that %q leads", b.web, leader.ServiceURL)
			}
		}
		return nil
	})
	return found
}

func (p *pulsar) awaitBrokers(n int) {
	p.t.Helper()
	until(p.t, fmt.Sprint(n, " brokers are registered"), func() bool {
		names, _, err := p.zk.Children(p.t.Context(), "/loadbalance/brokers")
		return err == nil && len(names) == n
	})
}

func (p *pulsar) startWork() {
	var services, web []string
	for _, b := range p.brokers {
		services = append(services, fmt.Sprintf("127.0.0.1:%d", b.port))
		web = append(web, fmt.Sprintf("127.0.0.1:%d", b.web))
	}
	p.work = start(p.t, "work", p.line(absolute(p.t, "java/PulsarWork.java"), "pulsar://"+strings.Join(services, ","), "http://"+strings.Join(web, ","))...)
}

// progress waits until 300 more messages are acknowledged.
func (p *pulsar) progress() {
	p.t.Helper()
	p.work.awaitMore("(acked )", 3)
}

// killLeading kills the broker that leads, does something more, and starts it again once another one leads.
func (p *pulsar) killLeading(more func()) {
	p.t.Helper()
	old := p.awaitLeading(nil)
	old.program.kill()
	more()
	p.awaitLeading(old)
	p.awaitBrokers(1)
	p.progress()
	p.startBroker(old)
	p.awaitBrokers(2)
	p.awaitLeading(nil)
	p.progress()
}

// freezeLeading pauses the broker that leads until another one does.
func (p *pulsar) freezeLeading() {
	old := p.awaitLeading(nil)
	process := old.program.command.Process
	must(p.t, process.Signal(syscall.SIGSTOP))
	p.awaitBrokers(1)
	p.awaitLeading(old)
	p.progress()
	must(p.t, process.Signal(syscall.SIGCONT))
	until(p.t, "the broker has a session again, or has ended", func() bool {
		names, _, err := p.zk.Children(p.t.Context(), "/loadbalance/brokers")
		return err == nil && (len(names) == 2 || old.program.hasEnded())
	})
	if old.program.hasEnded() {
		p.startBroker(old)
	}
	p.awaitLeading(nil)
	p.progress()
}

// judge checks that all that was acknowledged is there once.
func (p *pulsar) judge() {
	p.awaitLeading(nil)
	p.work.say("end")
	result := p.work.await(`result (.*)\n`)[1]
	p.t.Log("work: " + result)
	if !strings.Contains(result, " missing=0 twice=0 unread=0 created=30 ") {
		p.t.Error("not all that was acknowledged is there once")
	}
	if failed := p.work.matches("(?m)^(failed: .*)"); len(failed) > 0 {
		p.t.Errorf("messages were refused: %q", failed)
	}
	p.figures("Pulsar 3.0.7")
}
