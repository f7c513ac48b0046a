package server

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// If somebody looks for a write that was given up, the log of the server that had it says when that
// happened.
func TestLogSaysWhatOfTheHistoryIsGivenUp(t *testing.T) {
	fs, log := vfs.NewMem(), &awaittest.Log{}
	s, stop := launch(t, fs, nil)
	p := dial(t, s, nil)
	p.must(zk.OK, create("/a", "kept", 0))
	p.must(zk.OK, create("/b", "given up", 0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, err := New(testConfig(fs, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	last := s.disk.data.Log().Last()
	truncate := &diskWork{DiskOp: replica.DiskOp{Kind: replica.DiskTruncate, Zxid: last - 1}}
	for range 2 { // the second time, nothing is given up
		if _, err := s.do(truncate); err != nil {
			t.Fatal(err)
		}
	}
	replace := &diskWork{DiskOp: replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: last}, snapshot: s.beginSnapshot()}
	if _, err := s.do(replace); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "the last line", func() bool { return strings.Contains(log.String(), "leader's snapshot") })
	truncated := `msg="gave up the end of the log, which the leader does not have" after=` + (last - 1).String() + " upTo=" + last.String()
	replaced := `zxid=` + last.String() + " before=" + (last - 1).String()
	if text := log.String(); strings.Count(text, "gave up") != 1 || !strings.Contains(text, truncated) || !strings.Contains(text, replaced) {
		t.Errorf("the log lacks %q or %q, or has a line too many:\n%s", truncated, replaced, text)
	}
}
