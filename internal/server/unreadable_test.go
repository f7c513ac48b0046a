package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A server of Apache's accepts a reconfig that this server cannot read, and the data contain
// it. The start is refused, with a message about what to do: continuing with the configuration
// before could elect two leaders.
func TestServerDoesNotStartByAConfigurationThatItCannotRead(t *testing.T) {
	const servers = "server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\nserver.2=10.0.0.2:2888:3888:participant;10.0.0.2:2181\n" +
		"server.3=10.0.0.3:2888:3888:participant;10.0.0.3:2181\n"
	config, err := ensemble.Parse(servers)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		groups  string
		refused bool
	}{{"group.1=1:2:3", false}, {"group.1=1:2:3:9", true}} {
		mem := vfs.NewMem()
		d, err := replicadisk.Open(mem, replicadisk.Options{Store: datadir.Options{DataDir: "/data"}, Ensemble: true, ExtendedTypes: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.Recover(); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []replica.DiskKind{replica.DiskSetAccepted, replica.DiskSetCurrent} {
			if _, err = d.Do(&replica.DiskOp{Kind: kind, Epoch: 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		zxid := zk.MakeZxid(1, 1)
		state := replica.NewState(true)
		state.Replay(&zk.TxnHeader{Zxid: zxid, Op: zk.OpReconfig}, &zk.Txn{Op: zk.OpReconfig, Path: zk.ConfigPath,
			Data: fmt.Appendf(nil, "%s%s\nversion=%x", servers, c.groups, int64(zxid)), Version: -1}, zk.Digest{})
		if _, err = replicadisk.Begin(state.Tree(), state.Leases()).Save(d.Store(), nil); err != nil {
			t.Fatal(err)
		}
		if err = d.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := New(testConfig(mem, func(cfg *Config) {
			cfg.ID, cfg.Ensemble, cfg.ReconfigEnabled, cfg.Listen = 1, config, true, bubble.NewNet(0).Listen
		}))
		if s != nil {
			s.close()
		}
		switch {
		case !c.refused && err != nil:
			t.Errorf("with %s: %v", c.groups, err)
		case c.refused && (err == nil || !strings.Contains(err.Error(), "this server cannot read it") || !strings.Contains(err.Error(), "9")):
			t.Errorf("with %s: %v, want a refusal", c.groups, err)
		}
	}
}
