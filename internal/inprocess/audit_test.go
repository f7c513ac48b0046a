package inprocess

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// auditedEnsemble is an ensemble whose servers each write an audit log.
type auditedEnsemble struct {
	*Ensemble
	t     *testing.T
	disks map[int]*vfs.Mem
}

func beginAudited(t *testing.T, servers int) *auditedEnsemble {
	t.Helper()
	a := &auditedEnsemble{t: t, disks: map[int]*vfs.Mem{}}
	base := quick()
	base.ReconfigEnabled, base.Audit.Enabled = true, true
	base.Auth = auth.Rules{}
	base.Auth.SuperDigest = base.Auth.Digest("super:secret")
	var err error
	a.Ensemble, err = Start(Options{
		Servers: servers, Base: base,
		FS:     func(id int) vfs.FS { a.disks[id] = vfs.NewMem(); return a.disks[id] },
		Change: func(id int, c *server.Config) { c.Audit.User = fmt.Sprintf("zookeeper/%d", id) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	serve(t, a.Ensemble)
	return a
}

// lines returns the lines of a server's log about an operation, without their beginnings.
func (a *auditedEnsemble) lines(id int, operation string) (lines []string) {
	a.t.Helper()
	name := filepath.Join("/", fmt.Sprint(id), "zookeeper_audit.log")
	content, err := vfs.ReadFile(a.disks[id], name, 1<<20)
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if _, text, _ := strings.Cut(line, "Logger: "); strings.Contains(text, "\toperation="+operation) {
			lines = append(lines, strings.TrimSuffix(text, "\n"))
		}
	}
	return lines
}

// expect waits until the given servers have one line about an operation, and checks that
// the others have none.
func (a *auditedEnsemble) expect(operation string, want map[int]string) {
	a.t.Helper()
	for id, line := range want {
		awaittest.Until(a.t, "a line about "+operation, func() bool { return len(a.lines(id, operation)) > 0 })
		if lines := a.lines(id, operation); len(lines) != 1 || lines[0] != line {
			a.t.Errorf("server %d: %q, want %q", id, lines, line)
		}
	}
	for id := 1; id <= a.Size(); id++ {
		if lines := a.lines(id, operation); want[id] == "" && len(lines) > 0 {
			a.t.Errorf("server %d: %q", id, lines)
		}
	}
}

// As in Apache, a client's operations are logged by the server to which the client is
// connected, and every server logs the ephemerals that are deleted with a session.
func TestLinesAreWhereTheClientIs(t *testing.T) {
	a, ctx := beginAudited(t, 3), awaittest.Within(t)
	at := a.Leader()%3 + 1 // a follower
	c, err := client.Dial(ctx, a.Addr(at), client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte("super:secret")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session := fmt.Sprintf("session=0x%x\tuser=", uint64(c.SessionID()))
	who := session + "127.0.0.1,super\tip=127.0.0.1\toperation="
	if _, _, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(ctx, "/e", nil, 7); err == nil {
		t.Error("the version is one")
	}
	if _, _, err := c.Reconfig(ctx, client.Change{Leaving: []string{fmt.Sprint(at%3 + 1)}, Version: 77}); err == nil {
		t.Error("the version is one")
	}
	a.expect("create", map[int]string{at: who + "create\tznode=/e\tznode_type=ephemeral\tresult=success"})
	a.expect("setData", map[int]string{at: who + "setData\tznode=/e\tresult=failure"})
	a.expect("reconfig", map[int]string{at: who + "reconfig\tresult=failure"})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	everywhere := map[int]string{}
	for id := 1; id <= 3; id++ {
		everywhere[id] = session + fmt.Sprintf("zookeeper/%d\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\tresult=success", id)
	}
	a.expect("ephemeral", everywhere)
}

// A successful reconfig has a line about the znode of the configuration.
func TestReconfigHasALine(t *testing.T) {
	a, ctx := beginAudited(t, 3), awaittest.Within(t)
	at := a.Leader()
	c, err := client.Dial(ctx, a.Addr(at), client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte("super:secret")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Reconfig(ctx, client.Change{Leaving: []string{fmt.Sprint(at%3 + 1)}, Version: -1}); err != nil {
		t.Fatal(err)
	}
	a.expect("reconfig", map[int]string{
		at: fmt.Sprintf("session=0x%x\tuser=127.0.0.1,super\tip=127.0.0.1\toperation=reconfig\tznode=/zookeeper/config\tresult=success", uint64(c.SessionID())),
	})
}
