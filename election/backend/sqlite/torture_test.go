//go:build conformance && linux

package sqlite

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// writerVariable makes a test process write to the database that it names.
const writerVariable = "CONCLAVE_SQLITE_WRITER"

// TestWriter is that process: it writes a row of its own until it is killed.
func TestWriter(t *testing.T) {
	url := os.Getenv(writerVariable)
	if url == "" {
		return // this process runs another test
	}
	s := openStore(t, url)
	fmt.Println("writes")
	for version, i := "", uint64(0); ; i++ {
		next, err := s.Write(awaittest.Within(t), "writer", record.Record{Token: election.Token(i), Heartbeat: i}, version)
		if err != nil {
			_, next, _ = s.Read(awaittest.Within(t), "writer")
		}
		version = next
	}
}

// faults returns faults of a file: somebody holds its lock, a writer is killed or
// paused in the middle of a write, the log is written back, the journal mode changes.
func faults(url string, lease time.Duration) map[string]func(*testing.T, *rand.Rand) {
	awhile := func(random *rand.Rand) {
		awaittest.RealTime(time.Duration(random.Int64N(int64(5*lease/2))), "the length of the fault")
	}
	writer := func(work func(t *testing.T, random *rand.Rand, writer *os.Process)) func(*testing.T, *rand.Rand) {
		return func(t *testing.T, random *rand.Rand) {
			command := exec.Command(os.Args[0], "-test.run", "^TestWriter$")
			command.Env = append(os.Environ(), writerVariable+"="+url)
			out, err := command.StdoutPipe()
			if err == nil {
				err = command.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = bufio.NewReader(out).ReadString('\n')
			awaittest.RealTime(time.Duration(random.Int64N(int64(200*time.Millisecond))), "it is struck at any moment of its writes")
			work(t, random, command.Process)
			_ = command.Process.Kill()
			_ = command.Wait() // killed
		}
	}
	return map[string]func(*testing.T, *rand.Rand){
		"lock": func(t *testing.T, random *rand.Rand) {
			tx, err := openDB(t, url, "_txlock=exclusive&_pragma=busy_timeout(20000)").BeginTx(awaittest.Within(t), nil)
			if err != nil {
				t.Error(err)
				return
			}
			awhile(random)
			_ = tx.Rollback()
		},
		"kill": writer(func(*testing.T, *rand.Rand, *os.Process) {}),
		"freeze": writer(func(t *testing.T, random *rand.Rand, writer *os.Process) {
			if err := writer.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			awhile(random)
		}),
		"checkpoint": func(t *testing.T, _ *rand.Rand) {
			_, _ = openDB(t, url, "_pragma=busy_timeout(200)").ExecContext(awaittest.Within(t), "pragma wal_checkpoint(truncate)") // if nobody reads
		},
		"journal": func(t *testing.T, random *rand.Rand) {
			mode := []string{"wal", "delete", "truncate"}[random.IntN(3)]
			_, _ = openDB(t, url, "_pragma=busy_timeout(200)").ExecContext(awaittest.Within(t), "pragma journal_mode = "+mode) // if nobody is connected
		},
	}
}

func tortureOf(t *testing.T, candidates int) storetest.Torture {
	const lease = time.Second
	url := newURL(t)
	s := openStore(t, url)
	if _, err := s.Write(awaittest.Within(t), "torture", record.Record{Token: election.Token(time.Now().Add(time.Hour).UnixMilli())}, ""); err != nil {
		t.Fatal(err) // as a fast clock leaves it
	}
	return storetest.Torture{Candidates: candidates, Faults: faults(url, lease), Lease: lease, LeadersMin: 5,
		Open: Open, URL: func(int) string { return url }}
}

// TestNoTwoLeadUnderTorture, whatever happens to the file and its writers.
func TestNoTwoLeadUnderTorture(t *testing.T) { tortureOf(t, 10).Run(t) }

// TestNoMoreHoldThanMay: places and a lock for readers and writers, under the same faults.
func TestNoMoreHoldThanMay(t *testing.T) { tortureOf(t, 12).Holders(t) }
