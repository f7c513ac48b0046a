//go:build linux

package command_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// apachesTools lists what Apache ZooKeeper has: the commands of zkCli.sh (those of CommandFactory
// and its own), the verbs of zkServer.sh, and the other scripts in its bin directory.
var apachesTools = map[string]string{
	"zkCli.sh": "addWatch addauth close config connect create delete deleteall delquota exit get getAcl getAllChildrenNumber " +
		"getEphemerals history listquota ls printwatches quit reconfig redo removewatches set setAcl setquota stat sync version whoami",
	"zkServer.sh":            "start start-foreground stop restart status version print-cmd print-classpath",
	"zkServer-initialize.sh": "", "zkCleanup.sh": "", "zkTxnLogToolkit.sh": "", "zkSnapShotToolkit.sh": "",
	"zkSnapshotComparer.sh": "", "zkSnapshotRecursiveSummaryToolkit.sh": "",
}

// toolRow is one row of the table: what ZooKeeper has, and what replaces it here.
type toolRow struct{ tool, here, remark string }

// toolTable reads the table of docs/operations.md.
func toolTable(t *testing.T) []toolRow {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []toolRow
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `zk") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		rows = append(rows, toolRow{strings.Trim(cells[1], "`"), cells[2], cells[3]})
	}
	return rows
}

func TestEveryToolOfZooKeeperIsInTheTable(t *testing.T) {
	rows := map[string]int{}
	for _, row := range toolTable(t) {
		rows[row.tool]++
	}
	for script, all := range apachesTools {
		verbs := strings.Fields(all)
		if len(verbs) == 0 {
			verbs = []string{""}
		}
		for _, verb := range verbs {
			name := strings.TrimSpace(script + " " + verb)
			if rows[name] != 1 {
				t.Errorf("%s is in %d rows of the table of docs/operations.md", name, rows[name])
			}
			delete(rows, name)
		}
	}
	for name := range rows {
		t.Errorf("%s is in the table, and no tool of ZooKeeper's", name)
	}
}

var quoted = regexp.MustCompile("`(conclave [^`]*)`")

// lasting matches commands that run until they are interrupted.
var lasting = regexp.MustCompile(`^conclave (watch|create -e|serve)\b`)

// TestEveryCommandInTheTableRuns runs the commands in the order of the table, on an ensemble of
// three servers and an observer, and on data directories. A command that does not end by itself is
// interrupted once it prints something.
func TestEveryCommandInTheTableRuns(t *testing.T) {
	dir := t.TempDir()
	e := toolServers(t, inprocess.Options{Servers: 3, Observers: 1})
	files := toolFiles(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.CreateAll(ctx, "/app/deep/er", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, _, err := c.GetConfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg.dynamic"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, row := range toolTable(t) {
		found := quoted.FindAllStringSubmatch(row.here, -1)
		if reason, none := strings.CutPrefix(row.here, "none, because "); none != (len(found) == 0) || none && len(reason) < 15 {
			t.Errorf("%s: neither a command nor a reason why there is none: %s", row.tool, row.here)
		}
		for _, one := range found {
			if err := runTool(t, dir, strings.Join(e.Addrs(), ","), files.Replace(one[1])); err != nil {
				t.Errorf("%s: %s: %v", row.tool, one[1], err)
			}
			run++
		}
	}
	if run < 45 {
		t.Errorf("%d commands were found in the table", run)
	}
}

// toolServers runs servers that allow everything that administrators do.
func toolServers(t *testing.T, o inprocess.Options) *inprocess.Ensemble {
	t.Helper()
	o.Base = server.Default()
	o.Base.TickTime, o.Base.SilenceTime, o.Base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 64<<10
	o.Base.FourLetterWords, o.Base.Commands = []string{"*"}, admin.Commands{Version: "1.2.3", Built: "2026-11-20 22:10 UTC"}
	o.Base.ReconfigEnabled, o.Base.Auth.SkipACL, o.Base.ExtendedTypes = true, true, true
	e, err := inprocess.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), scripts.Patience)
	defer cancel()
	if err := e.Await(ctx, func() bool {
		for id := 1; id <= e.Size(); id++ {
			if !e.Server(id).Serves() {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// toolFiles makes two data directories with the same tree, and a zoo.cfg. It returns the
// replacements for their names in the table.
func toolFiles(t *testing.T, dir string) *strings.Replacer {
	t.Helper()
	e := toolServers(t, inprocess.Options{Servers: 1, Dir: dir, FS: func(int) vfs.FS { return osfs.New() }})
	c, err := client.Dial(t.Context(), e.Addr(1), client.Options{})
	if err == nil {
		_, _, err = c.Create(t.Context(), "/app", []byte("text"), client.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	e.Close()
	other := filepath.Join(dir, "other")
	if err := os.CopyFS(other, os.DirFS(filepath.Join(dir, "1"))); err != nil {
		t.Fatal(err)
	}
	zoo := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=2000\n", filepath.Join(dir, "served"), childtest.Port(t))
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(zoo), 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/var/lib/zookeeper", filepath.Join(dir, "1"), "/mnt/other/zookeeper", other)
}

// runTool runs a line of the shell. A command that does not end by itself is interrupted once it
// has printed something.
func runTool(t *testing.T, dir, servers, line string) error {
	t.Helper()
	goesOn := lasting.MatchString(line) && !strings.Contains(line, "--check")
	if goesOn {
		line = "exec " + line
	}
	ctx, cancel := context.WithTimeout(t.Context(), scripts.Patience)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", line)
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	command.Dir, command.Stdout, command.Stderr = dir, write, write
	command.Env = append(os.Environ(), "CONCLAVE_STORE=zk://"+servers, "HOME="+dir)
	childtest.Start(t, command)
	_ = write.Close()
	said := bufio.NewReader(read)
	first, err := said.ReadString('\n')
	for strings.Contains(line, " serve ") && err == nil && !strings.Contains(first, "msg=serving") {
		var more string
		more, err = said.ReadString('\n')
		first += more
	}
	if goesOn {
		_ = command.Process.Signal(os.Interrupt)
	}
	rest, _ := io.ReadAll(said)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, first, rest)
	}
	return nil
}
