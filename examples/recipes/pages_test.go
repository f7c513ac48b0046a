package recipes

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

// codeOf lists the files that contain the Go code of each page; a test compiles or runs them.
var codeOf = map[string][]string{
	"docs/recipes.md": {"*.go", "../masterworker/*.go"},
	"README.md":       {"pages_test.go"},
	"README.zh-CN.md": {"pages_test.go"},
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestCodeOnThePagesIsThatOfFunctionsThatRun checks that the lines of each block are in one
// function, in the same order. The lines that a page leaves out in between are error checks.
func TestCodeOnThePagesIsThatOfFunctionsThatRun(t *testing.T) {
	for page, patterns := range codeOf {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		var functions []string
		for _, pattern := range patterns {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatal(pattern, err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				functions = append(functions, strings.Split(string(source), "\nfunc ")...)
			}
		}
		blocks := goBlock.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no code", page)
		}
		for _, block := range blocks {
			if !shows(block[1], functions) {
				t.Errorf("%s: this code is in no function of %q:\n%s", page, patterns, block[1])
			}
		}
	}
}

// shows reports whether one of these functions has the lines of a block, in the same order.
func shows(block string, functions []string) bool {
	for _, function := range functions {
		rest := strings.Split(strings.TrimSpace(block), "\n")
		for line := range strings.Lines(function) {
			if len(rest) > 0 && strings.TrimSpace(line) == strings.TrimSpace(rest[0]) {
				rest = rest[1:]
			}
		}
		if len(rest) == 0 {
			return true
		}
	}
	return false
}

func TestALineThatIsNotThereIsMissed(t *testing.T) {
	functions := []string{"a\n\tb\nc\n", "d\n"}
	for block, want := range map[string]bool{"a\nc": true, "b": true, "c\na": false, "a\nd": false, "e": false} {
		if shows(block, functions) != want {
			t.Errorf("%q is there: %v", block, !want)
		}
	}
}

// readme is the code of README.md.
func readme(ctx context.Context, work func(context.Context, uint64) error) error {
	backend, err := zookeeper.New("zk1:2181,zk2:2181", zookeeper.Options{}) // or file.New(dir)
	if err != nil {
		return err
	}
	defer func() { _ = backend.Close() }()
	elector, err := election.New(backend, "billing/nightly", election.Options{Lease: 10 * time.Second})
	if err != nil {
		return err
	}
	err = elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error { // again and again, until ctx ends
		return work(ctx, uint64(lead.Token())) // ctx ends before anybody else may lead
	})
	return err
}

// connect is the code with which docs/recipes.md begins.
func connect(ctx context.Context) (*client.Client, election.Backend, error) {
	c, err := client.Dial(ctx, "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", client.Options{})
	if err != nil {
		return nil, nil, err
	}
	store, err := zookeeper.New("127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183", zookeeper.Options{}) // or etcd.New, ...
	return c, store, err
}

// TestWhatIsNotReachedIsSaid runs the pages' code, which names servers that do not exist here.
func TestWhatIsNotReachedIsSaid(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := readme(over, nil); err == nil {
		t.Error("who leads?")
	}
	if _, _, err := connect(over); err == nil {
		t.Error("connected in no time")
	}
}

// TestReadmeOfConclavetest runs what README.md says about package conclavetest.
func TestReadmeOfConclavetest(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(3))
	c := e.Client(t) // or any ZooKeeper client on e.Servers()
	e.Kill(e.Leader())
	e.ExpireSession(c.SessionID())
	before := e.Now()
	e.Advance(time.Minute)
	<-c.Done()
	if passed := e.Now().Sub(before); passed < time.Minute {
		t.Errorf("%v have passed", passed)
	}
}
