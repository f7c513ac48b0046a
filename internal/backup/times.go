package backup

import (
	"context"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// rightTimes corrects snapshots that appear older than the transactions before and after them:
// a snapshot that was copied while the clock was behind would look like a state of long ago.
func (b *Backup) rightTimes() {
	logs := b.ways.logs
	for i := range b.pieces {
		p := &b.pieces[i]
		if p.log {
			continue
		}
		next := sort.Search(len(logs), func(i int) bool { return logs[i].first >= p.first })
		for next > 0 && logs[next-1].last > p.first {
			next--
		}
		if next == 0 {
			continue
		}
		least := logs[next-1].time
		if next < len(logs) && logs[next].time.Before(least) { // the clock of the earlier log may have been ahead
			least = logs[next].time
		}
		if p.time.Before(least) {
			p.time = least
		}
	}
}

// longBefore returns the moment from which on states are kept. If a clock was set to another
// year, there is a long time between two pieces, so no interval counts for more than a quarter
// of the period.
func (b *Backup) longBefore(now time.Time, long time.Duration) time.Time {
	at, left, logs := now, long, b.ways.logs
	for i := len(logs) - 1; i >= 0; i-- {
		between := max(0, min(at.Sub(logs[i].time), long/4))
		if i == len(logs)-1 {
			if between > 0 {
				at = logs[i].time
			}
			continue
		}
		if between >= left {
			break
		}
		at, left = logs[i].time, left-between
	}
	return at.Add(-left)
}

// bases returns the snapshots from which a moment may be reached, in the order in which to try
// them: first the newest one that is not later than the moment. A state is older than its copy,
// and only the log after it shows by how much. So if the first snapshot does not lead to a
// time, the next one may.
func (b *Backup) bases(m Moment) pieces {
	var found, late pieces
	for _, p := range b.pieces.snapshots() {
		switch {
		case p.last > m.zxid() || !b.ways.leads(p, p.last):
		case m.Time.IsZero() || !p.time.After(m.Time):
			found, late = pieces{p}, nil
		case late == nil:
			late = pieces{p}
		}
	}
	return append(found, late...)
}

// begins notices the first record from which on a snapshot is exact: the state began with it,
// or existed before it.
func (l *loading) begins(zxid zk.Zxid, when time.Time) {
	if l.begun || zxid < l.base.last {
		return
	}
	l.begun = true
	if l.late() && when.After(l.moment.Time) {
		l.early(when)
	}
}

// late reports whether the snapshot was copied after the wanted time.
func (l *loading) late() bool { return !l.moment.Time.IsZero() && l.base.time.After(l.moment.Time) }

// early ends the loading: the wanted time is before everything that the snapshot leads to.
func (l *loading) early(begin time.Time) {
	l.past = true
	l.outside = fmt.Errorf("%w: it begins at %s, %s", ErrOutside, l.base.last, begin.UTC().Format(time.RFC3339Nano))
}

// until returns the end of what a snapshot leads to: the time of the last transaction, or a
// later time at which a state with that transaction was copied.
func (b *Backup) until(base piece) time.Time {
	last, _ := b.ways.end(base)
	at := last.time
	for _, p := range b.pieces.snapshots() {
		if p.last <= last.last && p.time.After(at) {
			at = p.time
		}
	}
	return at
}

// TimedRanges is Ranges with the times from which on states can be restored, for ranges that do
// not overlap an earlier one. These are the times of the first transactions, which have to be
// read. After an error it returns Ranges.
func (b *Backup) TimedRanges(ctx context.Context) ([]Range, error) {
	ranges, before := b.Ranges(), zk.NoZxid
	var bases pieces
	b.eachRange(func(base piece, _ Range) { bases = append(bases, base) })
	for i := range ranges {
		r := &ranges[i]
		if i > 0 && r.First <= before {
			before = max(before, r.Last)
			continue
		}
		before = r.Last
		at, err := b.beginning(ctx, bases[i])
		if err != nil {
			return b.Ranges(), err
		}
		if at.Before(r.FirstTime) {
			r.FirstTime = at
		}
	}
	return ranges, nil
}

// beginning returns when the first state that a snapshot leads to is known to have existed: the
// time of the first record from which on it is exact, or otherwise the time at which it was
// copied.
func (b *Backup) beginning(ctx context.Context, base piece) (time.Time, error) {
	l := &loading{ctx: ctx, place: b.place, base: base}
	for _, p := range b.ways.chain(base, base.last+1) {
		at, found, err := l.firstTime(p)
		if err != nil {
			return at, fmt.Errorf("read %s: %w", p.name, err)
		}
		if found {
			return at, nil
		}
	}
	return base.time, nil
}

// firstTime returns the time of the first record in a piece from which on the snapshot is
// exact.
func (l *loading) firstTime(p piece) (at time.Time, found bool, err error) {
	reader, err := l.reader(p)
	if err != nil {
		return at, false, err
	}
	defer reader.Close()
	for {
		record, err := reader.Next()
		switch {
		case err == io.EOF:
			return at, false, nil
		case err != nil:
			return at, false, err
		case record.Zxid >= l.base.last:
			at, err = recordTime(&record)
			return at, true, err
		}
	}
}
