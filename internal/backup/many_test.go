package backup_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/backup"
)

// names is a place that contains only names, without content.
type names []string

func (n names) List(context.Context) ([]string, error)                 { return n, nil }
func (names) Put(context.Context, string, func(io.Writer) error) error { return fs.ErrPermission }
func (names) Open(context.Context, string) (io.ReadCloser, error)      { return nil, fs.ErrNotExist }
func (names) Remove(context.Context, string) error                     { return fs.ErrPermission }
func (n *names) add(kind string, first, last int, at time.Time) {
	*n = append(*n, fmt.Sprintf("%s-%016x-%016x-%s.gz", kind, first, last, at.UTC().Format("20060102T150405.000Z")))
}

// A backup of each minute of three months, with a snapshot a day. Going through all files for
// each step would take ten minutes, 64 times as long as for an eighth of the days.
func TestRangesOfManyFilesAreFoundAtOnce(t *testing.T) {
	const perDay = 24 * 60
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	cost := func(days int) time.Duration {
		var all names
		for i := range days * perDay {
			at := began.Add(time.Duration(i) * time.Minute)
			if i%perDay == 0 {
				all.add("snapshot", i*10, i*10, at)
			}
			all.add("log", i*10, i*10+10, at)
		}
		look := func() {
			b := open(t, all)
			ranges := b.Ranges()
			for i, r := range ranges {
				if int(r.First) != i*perDay*10 || int(r.Last) != days*perDay*10 || r.Files != (days-i)*perDay+1 {
					t.Fatalf("range %d: %+v", i, r)
				}
			}
			if _, err := b.Load(t.Context(), backup.Moment{}); err == nil {
				t.Error("there is no file")
			}
			if len(ranges) != days {
				t.Errorf("%d ranges of %d days", len(ranges), days)
			}
		}
		return awaittest.Cost(func() func() { return look })
	}
	const few, many = 12, 96
	one, all := cost(few), cost(many)
	t.Logf("%d days take %v, and %d take %v", few, one, many, all)
	if all > 32*one {
		t.Errorf("%d days take %v, and %d take %v", few, one, many, all)
	}
}

// Where pieces overlap, each step uses the one that reaches furthest.
func TestRangesOfOverlappingPieces(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var all names
	for _, p := range []struct {
		kind        string
		first, last int
	}{
		{"snapshot", 0, 0}, {"log", 0, 10}, {"log", 0, 4}, {"log", 3, 8}, {"log", 10, 12}, {"log", 5, 20}, {"log", 19, 30},
		{"snapshot", 15, 17}, {"snapshot", 40, 41}, {"log", 42, 50}, {"snapshot", 45, 45},
	} {
		all.add(p.kind, p.first, p.last, at)
	}
	got := ""
	for _, r := range open(t, all).Ranges() {
		got += fmt.Sprintf("%d to %d of %d files; ", int64(r.First), int64(r.Last), r.Files)
	}
	if want := "0 to 30 of 4 files; 17 to 30 of 3 files; 45 to 50 of 2 files; "; got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
}
