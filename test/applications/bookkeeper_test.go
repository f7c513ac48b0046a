//go:build linux && applications

package applications

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
)

// A bookkeeper is a cluster of three bookies, each with its own auto-recovery, of which one is the auditor.
type bookkeeper struct {
	*scene
	classPath string
	dir       string
	bookies   []*bookie
	zk        *client.Client
	work      *program
	asked     int
}

type bookie struct {
	port    int
	kills   int
	program *program
}

func (b *bookie) id() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

const (
	bookieAvailable  = "/ledgers/available"
	bookieElection   = "/ledgers/underreplication/auditorelection"
	bookieShellClass = "org.apache.bookkeeper.bookie.BookieShell"
)

func newBookKeeper(t *testing.T) *bookkeeper {
	t.Helper()
	return &bookkeeper{scene: newScene(t), classPath: jars(t, "bookkeeper-4.17"), dir: t.TempDir()}
}

func TestBookKeeper(t *testing.T) {
	b := newBookKeeper(t)
	b.step("bookies start", b.startAll)
	b.startWork()
	b.progress()
	b.step("leader of the ensemble is killed", func() { b.killLeader(); b.progress() })
	b.step("auditor is killed, and its ledgers get other bookies", b.killAuditor)
	b.step("leader of the ensemble and auditor are killed", func() { b.killLeaderAnd(b.killAuditor) })
	b.step("rolling restart of the ensemble", func() { b.restartAll(b.progress) })
	b.step("all ledgers are read", b.judge)
}

// An operator looks at the cluster, takes a bookie out of it, and at last removes all of its metadata. The
// ensemble has another leader each time.
func TestBookKeeperOperators(t *testing.T) {
	b := newBookKeeper(t)
	b.step("bookies start", b.startAll)
	b.startWork()
	b.progress()
	b.step("auditor", func() {
		if out := b.shell("whoisauditor"); !strings.Contains(out, b.auditor().id()) {
			t.Errorf("whoisauditor does not know %s: %s", b.auditor().id(), out)
		}
	})
	b.step("auto-recovery off and on", func() {
		const disabled = "/ledgers/underreplication/disable"
		for _, command := range []string{"-disable", "-enable"} {
			b.shell("autorecovery", command)
			if _, found, err := b.zk.Exists(t.Context(), disabled); err != nil || found != (command == "-disable") {
				t.Errorf("after autorecovery %s, %s: %t, %v", command, disabled, found, err)
			}
		}
	})
	b.killLeaderAnd(func() {
		b.step("a bookie is taken out", func() {
			gone := b.bookies[2]
			gone.program.kill()
			b.awaitBookies(2)
			b.shell("decommissionbookie", "-bookieid", gone.id())
			if n := b.uses(gone); n != "0" {
				t.Errorf("%s closed ledgers are on the bookie that was taken out", n)
			}
			if out := b.shell("listbookies", "-rw"); strings.Contains(out, gone.id()) || !strings.Contains(out, b.bookies[0].id()) {
				t.Errorf("the bookies after %s was taken out: %s", gone.id(), out)
			}
		})
	})
	b.endWork()
	b.step("everything is removed", func() {
		instance := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(b.shell("whatisinstanceid"))
		for _, one := range b.bookies {
			one.program.kill()
		}
		b.awaitBookies(0)
		b.shell("nukeexistingcluster", "-zkledgersrootpath", "/ledgers", "-instanceid", instance)
		if _, found, err := b.zk.Exists(t.Context(), "/ledgers"); found || err != nil {
			t.Errorf("/ledgers is still there: %t, %v", found, err)
		}
	})
}

func (b *bookkeeper) uri() string {
	return "zk+hierarchical://" + strings.ReplaceAll(b.addrs(), ",", ";") + "/ledgers"
}

func (b *bookkeeper) startAll() {
	for range 3 {
		b.bookies = append(b.bookies, &bookie{port: childtest.Port(b.t)})
	}
	b.shell("initnewcluster")
	for _, one := range b.bookies {
		b.start(one)
	}
	var err error
	b.zk, err = client.Dial(b.t.Context(), b.addrs(), client.Options{SessionTimeout: 20 * time.Second})
	must(b.t, err)
	b.t.Cleanup(func() { _ = b.zk.Close() })
	b.awaitBookies(3)
	until(b.t, "there is an auditor", func() bool { return b.auditor() != nil })
}

// shell runs a command of BookKeeper's shell, and returns what it printed.
func (b *bookkeeper) shell(args ...string) string {
	b.t.Helper()
	return run(b.t, args[0], b.line(append([]string{bookieShellClass, "-conf", b.config(b.bookies[0])}, args...)...)...)
}

// config writes the configuration of a bookie, and returns its name.
func (b *bookkeeper) config(one *bookie) string {
	dir := filepath.Join(b.dir, fmt.Sprint(one.port))
	must(b.t, os.MkdirAll(dir, 0o755))
	file := filepath.Join(dir, "bookie.conf")
	must(b.t, os.WriteFile(file, []byte(strings.Join([]string{
		"metadataServiceUri=" + b.uri(), fmt.Sprintf("bookiePort=%d", one.port),
		"listeningInterface=lo", "advertisedAddress=127.0.0.1", "allowLoopback=true", "zkTimeout=6000",
		"journalDirectories=" + filepath.Join(dir, "journal"), "ledgerDirectories=" + filepath.Join(dir, "ledgers"),
		"journalPreAllocSizeMB=1", "journalMaxSizeMB=16", "skipListSizeLimit=4194304", "diskUsageThreshold=0.99", "diskUsageWarnThreshold=0.98",
		"httpServerEnabled=false", "autoRecoveryDaemonEnabled=true", "lostBookieRecoveryDelay=0",
		"openLedgerRereplicationGracePeriod=3000", "auditorPeriodicBookieCheckInterval=5",
	}, "\n")+"\n"), 0o644))
	return file
}

// line returns the command line of one of BookKeeper's programs.
func (b *bookkeeper) line(args ...string) []string {
	log := filepath.Join(b.dir, "log4j2.properties")
	must(b.t, os.WriteFile(log, []byte(`rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
`), 0o644))
	flags := []string{"java", "-Xmx256m", "-XX:MaxDirectMemorySize=128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j.configurationFile=" + log, "-cp", b.classPath}
	return append(flags, args...)
}

func (b *bookkeeper) start(one *bookie) {
	b.t.Helper()
	one.program = start(b.t, fmt.Sprint("bookie-", one.port), b.line("org.apache.bookkeeper.server.Main", "--conf", b.config(one))...)
}

func (b *bookkeeper) startWork() {
	source, err := filepath.Abs("java/BookKeeperWork.java")
	must(b.t, err)
	b.work = start(b.t, "work", b.line(source, b.uri())...)
}

// progress waits until 300 more entries are acknowledged.
func (b *bookkeeper) progress() {
	b.t.Helper()
	acked := func() int {
		text, err := os.ReadFile(b.work.log)
		must(b.t, err)
		return strings.Count(string(text), " acked ")
	}
	before := acked()
	until(b.t, "more entries are written", func() bool { return acked() >= before+3 })
}

var bookieVote = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// auditor returns the bookie whose auto-recovery has won the election, nil while there is none.
func (b *bookkeeper) auditor() *bookie {
	data, _, err := b.zk.Get(b.t.Context(), bookieElection)
	if err != nil {
		return nil
	}
	for _, one := range b.bookies {
		if bookieVote.FindString(string(data)) == one.id() {
			return one
		}
	}
	return nil
}

// killAuditor kills the bookie that is the auditor. The next one has its ledgers copied to the others.
func (b *bookkeeper) killAuditor() {
	b.t.Helper()
	old := b.auditor()
	old.kills++
	old.program.kill()
	b.awaitBookies(2)
	until(b.t, "another bookie is the auditor", func() bool { next := b.auditor(); return next != nil && next != old })
	until(b.t, "no closed ledger is on the killed bookie", func() bool { return b.uses(old) == "0" })
	b.progress()
	b.start(old)
	b.awaitBookies(3)
	b.progress()
}

// uses asks the work how many closed ledgers are on the bookie.
func (b *bookkeeper) uses(one *bookie) string {
	b.asked++
	b.work.say(fmt.Sprint("uses ", b.asked, " ", one.id()))
	return b.work.await(fmt.Sprintf(`uses %d (\d+)\n`, b.asked))[1]
}

func (b *bookkeeper) awaitBookies(n int) {
	b.t.Helper()
	until(b.t, fmt.Sprint(n, " bookies are registered"), func() bool {
		names, _, err := b.zk.Children(b.t.Context(), bookieAvailable)
		bookies := 0
		for _, name := range names {
			if bookieVote.MatchString(name) {
				bookies++
			}
		}
		return err == nil && bookies == n
	})
}

// judge checks what is left of the work.
func (b *bookkeeper) judge() {
	votes, _, err := b.zk.Children(b.t.Context(), bookieElection)
	must(b.t, err)
	if len(votes) != 3 || b.auditor() == nil {
		b.t.Errorf("not three candidates and an auditor: %v", votes)
	}
	b.figures("BookKeeper 4.17.2")
	b.endWork()
	for _, one := range append([]*bookie{{program: b.work}}, b.bookies...) {
		text, err := os.ReadFile(one.program.log)
		must(b.t, err)
		if expired := regexp.MustCompile(`(?m)^.*(state:Expired|has expired).*$`).FindString(string(text)); expired != "" {
			b.t.Errorf("%s lost its session: %s", one.program.name, expired)
		}
	}
}

// endWork checks that all that was acknowledged is there.
func (b *bookkeeper) endWork() {
	b.t.Helper()
	b.work.say("end")
	result := b.work.await(`result (.*)\n`)[1]
	b.t.Log("work: " + result)
	if !strings.Contains(result, " missing=0 ") {
		b.t.Error("not all that was acknowledged is there")
	}
}
