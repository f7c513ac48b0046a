//go:build linux && interop

package ensemble

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

//go:embed java/Writer.java
var writerSource []byte

// A javaWriter is Apache's own client, which writes beside those in Go. Its process ends
// when its input ends.
type javaWriter struct {
	load    *workload.Load
	input   io.WriteCloser
	process *exec.Cmd
	errors  bytes.Buffer
	read    chan struct{} // closed when the output has ended

	mu                          sync.Mutex
	acknowledged, unknown, lost int
	longest                     time.Duration // between two acknowledgements
	last                        time.Time
	done                        bool
}

// startJava starts a Java client on znodes of the load; its writes are in the load's
// ledger.
func startJava(t *testing.T, version string, l *workload.Load, addrs string) *javaWriter {
	t.Helper()
	classPath, err := servers.ClassPath(t.Context(), version)
	must(t, err)
	source := filepath.Join(t.TempDir(), "Writer.java")
	must(t, os.WriteFile(source, writerSource, 0o644))
	parent, err := l.Guest(t.Context(), "java")
	must(t, err)
	j := &javaWriter{load: l, read: make(chan struct{})}
	j.process = exec.Command("java", "-Xmx64m", "-Dconclave.log.level=ERROR", "-XX:TieredStopAtLevel=1",
		"-cp", classPath, source, addrs, parent, "10000", "2")
	j.process.Stderr = &j.errors
	j.input, err = j.process.StdinPipe()
	must(t, err)
	output, err := j.process.StdoutPipe()
	must(t, err)
	childtest.Start(t, j.process)
	go j.follow(output)
	return j
}

// follow reads the client's results.
func (j *javaWriter) follow(output io.Reader) {
	defer close(j.read)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		j.line(lines.Text())
	}
}

func (j *javaWriter) line(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fields := strings.Fields(line)
	switch {
	case len(fields) == 3 && fields[0] == "created":
		zxid, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			j.load.Ledger.Breach("the Java client prints %q", line)
		}
		j.load.Ledger.Created(fields[1], zk.Zxid(zxid))
		now := time.Now()
		if j.acknowledged > 0 {
			j.longest = max(j.longest, now.Sub(j.last))
		}
		j.last = now
		j.acknowledged++
	case len(fields) == 2 && fields[0] == "unknown":
		j.load.Ledger.Unknown(fields[1])
		j.unknown++
	case line == "expired":
		j.lost++
	case line == "done":
		j.done = true
	}
}

// await waits until the client has done this many writes.
func (j *javaWriter) await(t *testing.T, writes int) {
	t.Helper()
	j.mu.Lock()
	goal := j.acknowledged + writes
	j.mu.Unlock()
	waitFor(t, "the Java client writes", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.acknowledged >= goal
	})
}

// finish ends the client and waits until all its output is read.
func (j *javaWriter) finish(t *testing.T) {
	t.Helper()
	j.input.Close()
	select {
	case <-j.read:
	case <-time.After(time.Minute):
		t.Fatalf("the Java client does not end:\n%s", j.errors.String())
	}
	err := j.process.Wait()
	if !j.done || err != nil {
		t.Errorf("the Java client broke off: %v\n%s", err, j.errors.String())
	}
}

func (j *javaWriter) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return fmt.Sprintf("%d writes, %d of unknown outcome, %d sessions lost, longest gap %d ms",
		j.acknowledged, j.unknown, j.lost, j.longest.Milliseconds())
}
