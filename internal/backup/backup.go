// Package backup keeps copies of what a server has on disk, from which every state that the
// server passed through can be restored.
//
// Take reads the data directory of a running server up to a zxid at which everything is
// committed, and writes pieces: files with a whole snapshot, and files with the log from one
// zxid to another. Load later returns the state at a given zxid or time. A piece unpacked by
// gzip is a file in ZooKeeper's format.
//
// What always holds, by number, so that code and tests can name it:
//
//	backup-B1  A piece appears whole or not at all, and never changes. Its name
//	           says what is in it; nothing else is kept.
//	backup-B2  No record is in it that was not committed when it was taken.
//	backup-B3  A restored state is exactly that of its zxid, or it is refused: a
//	           piece can only be continued by one whose first record is its own
//	           last one.
//	backup-B4  What is restored has a zxid above all that the backup has seen: where it
//	           takes part, a server that was not restored is not elected.
//
// Several servers of one ensemble may write to the same place. The package starts no goroutine
// and reads no clock.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// Place is where the pieces are: a flat set of files that do not change. One goroutine uses it.
type Place interface {
	// List returns the names of all files, in any order.
	List(ctx context.Context) ([]string, error)
	// Put creates a file from what write writes. The file appears under its name when all of it
	// is durable, and not at all after an error. It may replace an equal one.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Open opens a file for reading. A missing one gives fs.ErrNotExist.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove deletes a file.
	Remove(ctx context.Context, name string) error
}

// Backup is the set of pieces in a place.
type Backup struct {
	place  Place
	pieces pieces
	ways   *ways
}

// Open reads the names of the pieces. Other files are ignored.
func Open(ctx context.Context, place Place) (*Backup, error) {
	b := &Backup{place: place}
	return b, b.reread(ctx)
}

func (b *Backup) reread(ctx context.Context) error {
	names, err := b.place.List(ctx)
	if err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	b.pieces = b.pieces[:0]
	for _, name := range names {
		if p, ok := parsePiece(name); ok {
			b.pieces = append(b.pieces, p)
		}
	}
	slices.SortFunc(b.pieces, func(a, c piece) int {
		return cmp.Or(cmp.Compare(a.first, c.first), cmp.Compare(a.last, c.last), cmp.Compare(a.name, c.name))
	})
	b.ways = newWays(b.pieces)
	b.rightTimes()
	return nil
}

// Range is a part of the history of which every state can be restored.
type Range struct {
	First     zk.Zxid
	FirstTime time.Time // when its snapshot was copied; TimedRanges has an earlier time
	Last      zk.Zxid
	LastTime  time.Time // of its last transaction
	Files     int
}

// Ranges lists what can be restored, one range for each snapshot. Ranges overlap.
func (b *Backup) Ranges() []Range {
	var ranges []Range
	b.eachRange(func(_ piece, r Range) { ranges = append(ranges, r) })
	return ranges
}

// A Gap is a part of the history, between two zxids, of which a backup has no state: the log
// was purged before it was taken, or a file of the backup is missing.
type Gap struct{ After, Before zk.Zxid }

// Gaps returns all gaps, the oldest first, except those in which a restore has given up states.
func (b *Backup) Gaps() []Gap {
	var gaps []Gap
	end, begun := zk.NoZxid, false
	b.eachRange(func(base piece, r Range) {
		if begun && r.First > end && r.First != restoredAt(end) {
			gaps = append(gaps, Gap{end, r.First})
		}
		end, begun = max(end, r.Last), true
	})
	if newest := b.pieces.newest(); begun && newest > end {
		gaps = append(gaps, Gap{end, newest + 1})
	}
	return gaps
}

// eachRange calls visit with what can be restored from each snapshot, oldest first.
func (b *Backup) eachRange(visit func(base piece, r Range)) {
	for _, base := range b.pieces.snapshots() {
		r := Range{First: base.last, FirstTime: base.time, Last: base.first, LastTime: base.time, Files: 1}
		if last, files := b.ways.end(base); files > 0 {
			r.Last, r.LastTime = last.last, last.time
			r.Files += files
		}
		if r.Last >= r.First {
			visit(base, r)
		}
	}
}

const maxZxid zk.Zxid = math.MaxInt64

// timeLayout is the form of times in names: in UTC, to the millisecond, as in transactions.
const timeLayout = "20060102T150405.000Z"

const (
	snapshotPrefix = "snapshot-"
	logPrefix      = "log-"
	suffix         = ".gz"
)

// piece is one file, as described by its name.
type piece struct {
	name        string
	log         bool
	first, last zk.Zxid   // a log has all records after first, up to last; for a snapshot first is its own zxid, and last the zxid from which on it is exact
	time        time.Time // of the last record; for a snapshot, when it was copied
}

func newPiece(log bool, first, last zk.Zxid, at time.Time) piece {
	prefix := snapshotPrefix
	if log {
		prefix = logPrefix
	}
	at = at.UTC().Truncate(time.Millisecond)
	name := fmt.Sprintf("%s%016x-%016x-%s%s", prefix, int64(first), int64(last), at.Format(timeLayout), suffix)
	return piece{name, log, first, last, at}
}

// parsePiece parses a name made by newPiece.
func parsePiece(name string) (piece, bool) {
	rest, isLog := strings.CutPrefix(name, logPrefix)
	if !isLog {
		rest = strings.TrimPrefix(name, snapshotPrefix)
	}
	parts := strings.SplitN(strings.TrimSuffix(rest, suffix), "-", 3)
	if len(parts) != 3 {
		return piece{}, false
	}
	var first, last int64
	if _, err := fmt.Sscanf(parts[0]+" "+parts[1], "%16x %16x", &first, &last); err != nil || first > last || first < 0 {
		return piece{}, false
	}
	at, err := time.Parse(timeLayout, parts[2])
	if err != nil {
		return piece{}, false
	}
	p := newPiece(isLog, zk.Zxid(first), zk.Zxid(last), at)
	return p, p.name == name
}

// pieces are sorted by their first zxid.
type pieces []piece

// snapshots lists the snapshots, oldest first.
func (all pieces) snapshots() pieces {
	return slices.DeleteFunc(slices.Clone(all), func(p piece) bool { return p.log })
}

// end returns the zxid that the newest snapshot and the logs after it reach, which the next
// piece must continue. at is the time of its last transaction, if a log ends with it.
func (b *Backup) end() (zxid zk.Zxid, at time.Time, known bool) {
	snapshots := b.pieces.snapshots()
	if len(snapshots) == 0 {
		return 0, at, false
	}
	newest := snapshots[len(snapshots)-1]
	zxid = newest.first
	if last, files := b.ways.end(newest); files > 0 {
		zxid = last.last
	}
	for _, p := range b.pieces {
		if p.log && p.last == zxid {
			at = p.time
		}
	}
	return zxid, at, true
}

// newest returns the highest zxid of all pieces.
func (all pieces) newest() zk.Zxid {
	var greatest zk.Zxid
	for _, p := range all {
		greatest = max(greatest, p.last)
	}
	return greatest
}

// Keep removes the pieces that no state of the last period needs. The period counts back from
// now, or from the last transaction if that is earlier: the clock may be wrong, and a backup
// that does not grow must not shrink.
func (b *Backup) Keep(ctx context.Context, now time.Time, long time.Duration) ([]string, error) {
	return b.Prune(ctx, b.longBefore(now, long))
}

// Prune removes the pieces that no state at or after a moment needs, and returns their names.
// The newest snapshot from which a state can be restored, and what comes after it, always stay.
func (b *Backup) Prune(ctx context.Context, before time.Time) ([]string, error) {
	var keep *piece
	for _, p := range b.pieces.snapshots() {
		if !b.ways.leads(p, p.last) { // its log is missing, so nothing can be restored from it
			continue
		}
		if keep == nil || !p.time.After(before) {
			keep = &p
		}
	}
	if keep == nil {
		return nil, nil
	}
	var removed []string
	for _, p := range b.pieces {
		needless := p.name != keep.name && (p.last < keep.first || !p.log && p.first < keep.first)
		if !needless {
			continue
		}
		if err := b.place.Remove(ctx, p.name); err != nil {
			return removed, fmt.Errorf("prune backup: %w", err)
		}
		removed = append(removed, p.name)
	}
	return removed, b.reread(ctx)
}

// ErrOtherHistory marks a refusal because the backup belongs to another ensemble, or to a
// history that has been given up since.
var ErrOtherHistory = errors.New("the backup has another history")

// ErrOutside marks a moment for which the backup has no state.
var ErrOutside = errors.New("the backup does not have this moment")
