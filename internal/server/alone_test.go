package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A server of an ensemble whose epoch is nearly used up is run alone and continues in the next
// epoch, where a write is acknowledged. Then it is run in its ensemble again.
func TestAServerThatEndedAnEpochAloneCanBeOfAnEnsembleAgain(t *testing.T) {
	mem := vfs.NewMem()
	options := replicadisk.Options{Store: datadir.Options{DataDir: "/data"}, Ensemble: true, ExtendedTypes: true}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := replicadisk.Open(mem, options)
	must(err)
	_, err = d.Recover()
	must(err)
	for _, kind := range []replica.DiskKind{replica.DiskSetAccepted, replica.DiskSetCurrent} {
		_, err = d.Do(&replica.DiskOp{Kind: kind, Epoch: 1}, nil)
		must(err)
	}
	last := zk.MakeZxid(1, 0xfffffffe) // the last zxid of the epoch that a standalone server can give
	state := replica.NewState(true)
	state.Replay(&zk.TxnHeader{Session: 7, Zxid: last, Op: zk.OpCreateSession},
		&zk.Txn{Op: zk.OpCreateSession, TimeoutMs: 1000}, zk.Digest{})
	_, err = replicadisk.Begin(state.Tree(), state.Leases()).Save(d.Store(), nil)
	must(err)
	must(d.Close())

	s, stop := launch(t, mem, nil) // alone
	p := dial(t, s, nil)
	if code, _ := p.do(create("/acknowledged", "", zk.Persistent)); code != zk.OK {
		t.Fatal(code)
	}
	must(stop())

	d, err = replicadisk.Open(mem, options)
	must(err)
	defer func() { _ = d.Close() }()
	found, err := d.Recover()
	must(err)
	if s := found.Stored; s.Last < zk.MakeZxid(2, 2) || s.Accepted != 2 || s.Current != 2 {
		t.Errorf("found %+v", s)
	}
}

// One zoo.cfg serves an ensemble and a test machine: a standalone server ignores what is about
// leaders with followers, and about servers that do not know a session.
func TestAServerAloneHasNoUseForWhatEnsemblesNeed(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.LocalSessions, c.NoClientsOfLeader = true, true })
	socket := knock(t, s)
	socket.Write(hello())
	if err := closes(socket); err == nil {
		t.Fatal("it takes no client")
	}
	p := dial(t, s, nil)
	p.must(zk.OK, create("/e", "", zk.Ephemeral))
	if st := s.Status(); st.LocalSessions != 0 {
		t.Errorf("%d sessions end with the process", st.LocalSessions)
	}
}
