//go:build linux && applications

package applications

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// All servers of the ensemble are down for longer than the brokers' sessions last. The brokers go on
// without them, and keep their sessions: nobody could count their time.
func TestKafkaOutlivesAnOutageOfTheEnsemble(t *testing.T) {
	k := newKafka(t, "kafka-3.9", kafkaToolsByBroker)
	k.step("brokers start", k.startAll)
	k.step("topic", func() { k.createTopic(kafkaTopic) })
	k.startWork()
	k.progress()
	before := k.controller()
	k.step("outage", func() {
		for _, m := range k.ensemble.Members {
			k.end(m, (*servers.Member).Kill)
		}
		begun := time.Now()
		until(t, "the outage is longer than the sessions", func() bool { return time.Since(begun) > 12*time.Second })
		k.progress()
		must(t, servers.StartAll(t.Context(), k.ensemble.Members...))
		k.dial() // this test's own client gives its session up
	})
	k.step("everything goes on", func() {
		until(t, "there is a controller", func() bool { return k.controller() != 0 })
		k.createTopic("later")
		k.progress()
	})
	if after := k.controller(); after != before {
		t.Errorf("the controller is no longer %d but %d", before, after)
	}
	k.judge()
}
