package zoocfg

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/vfs"
)

// at is a disk with the files of server 2, and the configuration read from them.
type at struct {
	*testing.T
	disk vfs.FS
}

func (a *at) text(name string) string {
	a.Helper()
	text, err := vfs.ReadFile(a.disk, name, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.Fatal(err)
	}
	return string(text)
}

// start reads the files as a server does when it starts.
func (a *at) start() *Config {
	a.Helper()
	entries, err := Parse("/etc/zoo.cfg", []byte(a.text("/etc/zoo.cfg")))
	if err != nil {
		a.Fatal(err)
	}
	c, err := Read(entries, a.disk)
	if err != nil {
		a.Fatalf("%v\n%s", err, a.text("/etc/zoo.cfg"))
	}
	return c
}

func (a *at) parse(text string) *ensemble.Config {
	a.Helper()
	c, err := ensemble.Parse(text)
	if err != nil {
		a.Fatal(err)
	}
	return c
}

const firstFile = "# what we run\ndataDir=/data\n  clientPort = 2182\nclientPortListenBacklog=5\nserver.1=a:2888:3888;2181\n" +
	"initLimit=10\nsyncLimit=5\npeerType=participant\nserver.2=b:2888:3888;\\\n  2182\n\n! and the third\nserver.3=c:2888:3888;2183\nreconfigEnabled=true"

func newAt(t *testing.T) *at {
	return &at{t, disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": firstFile})}
}

func TestAnEnsembleThatChangesIsKeptAsApacheKeepsIt(t *testing.T) {
	a := newAt(t)
	c := a.start()
	if err := c.Server.SaveEnsemble(c.Server.Ensemble.WithVersion(1<<32), true); err != nil {
		t.Fatal(err)
	}
	const lines = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:participant;0.0.0.0:2182\nserver.3=c:2888:3888:participant;0.0.0.0:2183"
	if got := a.text("/etc/zoo.cfg.dynamic.next"); got != lines+"\nversion=100000000" {
		t.Errorf("the proposal:\n%s", got)
	}
	if err := c.Server.SaveEnsemble(c.Server.Ensemble.WithVersion(1<<32), false); err != nil {
		t.Fatal(err)
	}
	const rest = "# what we run\ndataDir=/data\nclientPortListenBacklog=5\ninitLimit=10\nsyncLimit=5\n\n! and the third\nreconfigEnabled=true\n"
	for name, want := range map[string]string{
		"/etc/zoo.cfg":                   rest + "dynamicConfigFile=/etc/zoo.cfg.dynamic.100000000\n",
		"/etc/zoo.cfg.dynamic.100000000": lines,
		"/etc/zoo.cfg.dynamic.next":      "",
		"/etc/zoo.cfg.bak":               firstFile,
	} {
		if got := a.text(name); got != want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	again := a.start()
	if len(again.Remarks) > 0 || !again.Server.Ensemble.Equal(c.Server.Ensemble) || again.Server.Ensemble.Version != 1<<32 || again.Server.ClientAddr != ":2182" {
		t.Errorf("%v\n%s", again.Remarks, again.Server.Ensemble.Text())
	}
}

func TestALaterChangePointsToItsOwnFile(t *testing.T) {
	a := newAt(t)
	save := a.start().Server.SaveEnsemble
	ten := a.parse("server.10=j:1:2;3\nserver.2=b:1:2:observer;2182\nserver.3=c:1:2;3\ngroup.1=3:10\nversion=10000000a")
	for _, c := range []*ensemble.Config{a.parse(servers + "version=100000000"), ten} {
		if err := errors.Join(save(c, true), save(c, false)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "group.1=3:10\nserver.10=j:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:observer;0.0.0.0:2182\nserver.3=c:1:2:participant;0.0.0.0:3\nweight.10=1\nweight.3=1"; a.text("/etc/zoo.cfg.dynamic.10000000a") != want {
		t.Errorf("the lines:\n%s", a.text("/etc/zoo.cfg.dynamic.10000000a"))
	}
	if strings.Count(a.text("/etc/zoo.cfg"), "dynamicConfigFile") != 1 || a.text("/etc/zoo.cfg.bak") != firstFile {
		t.Errorf("the static file:\n%s", a.text("/etc/zoo.cfg"))
	}
	if c := a.start().Server; !c.Ensemble.Equal(ten) || c.Ensemble.Version != ten.Version || !c.Observer {
		t.Errorf("read again:\n%s", c.Ensemble.Text())
	}
}

func TestAProposalThatIsNewerStays(t *testing.T) {
	a := newAt(t)
	save := a.start().Server.SaveEnsemble
	decided, proposed := a.parse(servers+"version=100000000"), a.parse(servers+"version=100000001")
	if err := errors.Join(save(proposed, true), save(decided, false)); err != nil {
		t.Fatal(err)
	}
	if next := a.start().Server.Pending; next == nil || next.Version != proposed.Version {
		t.Error(next)
	}
}

func TestAClientPortOfTheStaticFileStays(t *testing.T) {
	a := newAt(t)
	c := a.parse(strings.Replace(servers, ";2182", "", 1) + "version=100000000")
	if err := a.start().Server.SaveEnsemble(c, false); err != nil {
		t.Fatal(err)
	}
	if again := a.start().Server; again.ClientAddr != ":2182" || !again.Ensemble.Equal(c) {
		t.Errorf("%s\n%s", again.ClientAddr, a.text("/etc/zoo.cfg"))
	}
}

func TestSavingTheSameAgainChangesNothingElse(t *testing.T) {
	a := newAt(t)
	save := a.start().Server.SaveEnsemble
	c := a.parse(servers + "version=100000000")
	if err := errors.Join(save(c, false)); err != nil {
		t.Fatal(err)
	}
	trace := &vfs.Trace{}
	a.disk = &vfs.Faulty{Disk: a.disk, Before: trace.Before}
	if err := a.start().Server.SaveEnsemble(c, false); err != nil {
		t.Fatal(err)
	}
	if got := trace.Take(); strings.Contains(got, "zoo.cfg\n") || strings.Contains(got, ".bak") {
		t.Errorf("did\n%s", got)
	}
}

// savedSteps: first the proposal; then the lines, the copy, and the pointer to the lines;
// only after that is the proposal removed.
const savedSteps = `create zoo.cfg.dynamic.next.tmp
write zoo.cfg.dynamic.next.tmp 155
sync zoo.cfg.dynamic.next.tmp
rename zoo.cfg.dynamic.next.tmp -> zoo.cfg.dynamic.next
syncdir etc
create zoo.cfg.dynamic.100000000.tmp
write zoo.cfg.dynamic.100000000.tmp 137
sync zoo.cfg.dynamic.100000000.tmp
rename zoo.cfg.dynamic.100000000.tmp -> zoo.cfg.dynamic.100000000
syncdir etc
create zoo.cfg.bak.tmp
write zoo.cfg.bak.tmp 239
sync zoo.cfg.bak.tmp
rename zoo.cfg.bak.tmp -> zoo.cfg.bak
syncdir etc
create zoo.cfg.tmp
write zoo.cfg.tmp 166
sync zoo.cfg.tmp
rename zoo.cfg.tmp -> zoo.cfg
syncdir etc
remove zoo.cfg.dynamic.next
syncdir etc
`

func TestSaveIsDurableInThisOrder(t *testing.T) {
	a := newAt(t)
	c := a.start().Server.Ensemble.WithVersion(1 << 32)
	trace := &vfs.Trace{}
	a.disk = &vfs.Faulty{Disk: a.disk, Before: trace.Before}
	save := a.start().Server.SaveEnsemble
	if err := errors.Join(save(c, true), save(c, false)); err != nil {
		t.Fatal(err)
	}
	if got := trace.Take(); got != savedSteps {
		t.Errorf("did\n%s", got)
	}
}

// A crash at any step leaves files that stand for the old configuration or the new one, and
// the static file is always complete.
func TestACrashLeavesOneConfigurationOrTheOther(t *testing.T) {
	for step := range 100 {
		a := newAt(t)
		mem := a.disk.(*vfs.Mem)
		count := 0
		crash := errors.New("crash")
		a.disk = &vfs.Faulty{Disk: mem, Before: func(op vfs.Op) error {
			if !op.Changes() {
				return nil
			}
			if count++; count > step {
				return crash
			}
			return nil
		}}
		changed := a.parse(strings.Replace(servers, "server.3", "server.4", 1) + "version=100000005")
		err := a.start().Server.SaveEnsemble(changed, false)
		for seed := range int64(4) {
			after := &at{t, mem.CrashClone(50, seed)}
			c := after.start().Server.Ensemble
			if c.Member(3) == nil && (!c.Equal(changed) || c.Version != changed.Version) || c.Member(3) != nil && (c.Version != 0 || err == nil) {
				t.Fatalf("C4: after step %d and %v:\n%s", step, err, c.Text())
			}
		}
		if err == nil {
			return
		}
	}
	t.Fatal("never done")
}

func TestPathsAreReadBackFromTheStaticFile(t *testing.T) {
	for _, path := range []string{"/etc/a b", " lead", `C:\zoo`, "/étc/動/😀", "/a=b:c#!"} {
		entries, err := Parse("f", []byte("dynamicConfigFile="+escape(path)+"\n"))
		if err != nil || len(entries) != 1 || entries[0].Value != strings.TrimSpace(path) {
			t.Errorf("%q: %v, %v", path, entries, err)
		}
	}
}

// Files as Apache ZooKeeper 3.9 leaves them: without comments, in its own order, with keys
// as java.util.Properties writes them.
func TestFilesOfApacheAreRead(t *testing.T) {
	a := &at{t, disk(t, map[string]string{
		"/data/myid": "2\n",
		"/etc/zoo.cfg": "initLimit=10\nsyncLimit=5\ntickTime=2000\nreconfigEnabled=true\ndataDir=/data\nstandaloneEnabled=false\n" +
			"dynamicConfigFile=/etc/zoo.cfg.dynamic.100000000\n",
		"/etc/zoo.cfg.dynamic.100000000": "server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181\n" +
			"server.2=[0:0:0:0:0:0:0:1]:2889:3889:participant;[0:0:0:0:0:0:0:0]:2182",
	})}
	c := a.start().Server
	if c.Ensemble.Version != 1<<32 || c.ClientAddr != ":2182" || c.Reconfig.ParticipantsMin != 1 || c.SaveEnsemble == nil {
		t.Errorf("%+v", c)
	}
}
