package command

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
)

// TestTimeThatPassesIsShownOnATerminal also checks that the line is removed before
// other text and at the end.
func TestTimeThatPassesIsShownOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := &bar{out: &out, shows: true}
		end := b.during(seconds)
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if got := out.String(); !strings.HasSuffix(got, "\r\x1b[K2 s") {
			t.Errorf("shown: %q", got)
		}
		out.Reset()
		_, err := b.Write([]byte("a line\n"))
		b.mu.Lock()
		if got := out.String(); err != nil || got != "\r\x1b[Ka line\n" {
			t.Errorf("written: %q, %v", got, err)
		}
		b.mu.Unlock()
		time.Sleep(time.Second)
		end()
		end()
		if got := out.String(); !strings.HasSuffix(got, "3 s\r\x1b[K") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// TestNothingIsShownWhereNobodyReadsAlong checks that a writer that is not a terminal
// gets what is written to the bar, and nothing else.
func TestNothingIsShownWhereNobodyReadsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := newBar(&out, 7)
		end := b.during(seconds)
		fs := vfs.NewMem()
		through, endRead := b.counted(fs, "data")
		time.Sleep(5 * time.Second)
		b.step(3, "runs")
		if _, err := b.Write([]byte("a line\n")); err != nil || out.String() != "a line\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
		end()
		endRead()
		if through != vfs.FS(fs) {
			t.Error("what nobody sees is counted")
		}
	})
}

// TestWhatIsReadOfADirectoryIsCounted covers Read and ReadAt.
func TestWhatIsReadOfADirectoryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		fs := vfs.NewMem()
		file, err := fs.Create("f")
		if err == nil {
			_, err = file.Write(make([]byte, 3<<20))
		}
		if err != nil {
			t.Fatal(err)
		}
		through, end := (&bar{out: &out, shows: true}).counted(fs, "data")
		file, err = through.Open("f")
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			_, _ = file.ReadAt(make([]byte, 2<<20), 0)
			_, _ = file.Read(make([]byte, 1<<20))
		})
		group.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		end()
		if got := out.String(); !strings.Contains(got, "reading data: 3 MB, 1 s") {
			t.Errorf("shown: %q", got)
		}
	})
}
