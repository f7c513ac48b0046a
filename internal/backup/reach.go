package backup

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/zk"
)

// reached says how the log of the source continues a history that ends at some zxid.
type reached int

const (
	notReached    reached = iota // it begins too late, or there is nothing to continue
	withRecord                   // it has the last record, and the records after it
	withSuccessor                // it does not have the last record, but has the one that comes next
	nothingNew
)

// reach finds the place in the log where the history ends. If a log covers the place but does
// not have the record, it belongs to another history.
func (t *taking) reach(from zk.Zxid, at time.Time, known bool) (reached, error) {
	if !known {
		return notReached, nil
	}
	if t.committed <= from {
		return nothingNew, nil
	}
	return t.find(from, at)
}

// find is reach for a place that the server has already passed.
func (t *taking) find(from zk.Zxid, at time.Time) (reached, error) {
	reader, err := t.read(from-1, true)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	record, err := reader.Next()
	covers := len(t.segments) > 0 && t.segments[0].First <= from
	switch {
	case err != nil && err != io.EOF:
		return 0, err
	case err == nil && record.Zxid == from:
		return withRecord, t.sameTime(&record, at)
	case at.IsZero() && err == nil && t.isNext(from, record.Zxid):
		return withSuccessor, nil
	case err == io.EOF && (len(t.snapshots) == 0 || t.snapshots[0].Zxid <= from):
		return nothingNew, nil // this server is behind, or was when its files were listed
	case err == nil && covers && !at.IsZero() && !t.goesAround(from, record.Zxid):
		return 0, fmt.Errorf("%w: its transaction %s is not in %s", ErrOtherHistory, from, t.source.LogDir)
	}
	return notReached, nil
}

// behind examines a server that has less than the backup: it is either behind, or has another
// history that was begun again or continued from an older copy. The newest piece that the
// server should have completely shows which. Nothing is taken from such a server.
func (t *taking) behind() error {
	if first := t.pieces[0].first; t.committed < first {
		return fmt.Errorf("%w: it begins at %s, and this server has committed no more than %s", ErrOtherHistory, first, t.committed)
	}
	var newest piece
	for _, p := range t.pieces {
		if p.log && p.last <= t.committed && p.last > newest.last {
			newest = p
		}
	}
	if !newest.log {
		return nil
	}
	_, err := t.find(newest.last, newest.time)
	return err
}

// isNext reports whether a record comes directly after a state whose last transaction is not in
// the log. The first record of a later epoch may come after any end of the epoch before, whose
// log may have been purged. It comes directly after the state only if the server still has a
// snapshot of that very state, and with it the log from there on, and none between the two.
func (t *taking) isNext(from, record zk.Zxid) bool {
	if record == from+1 {
		return true
	}
	kept := slices.ContainsFunc(t.snapshots, func(f snap.File) bool { return f.Zxid == from })
	between := slices.ContainsFunc(t.snapshots, func(f snap.File) bool { return from < f.Zxid && f.Zxid < record })
	return txnlog.Follows(from, record) && kept && !between
}

// goesAround reports whether a leader's state may replace a record that is not in the log.
func (t *taking) goesAround(zxid, next zk.Zxid) bool {
	return slices.ContainsFunc(t.snapshots, func(f snap.File) bool { return zxid <= f.Zxid && f.Zxid < next })
}

// goesTo finds how far the log continues a history: up to what is committed, or up to where a
// leader's state was received. For such a state there is a snapshot, and the log has nothing:
// ZooKeeper's own servers keep the earlier log (txnlog-L8), whose end may never have been
// committed. state is the zxid of that snapshot; zk.NoZxid without one.
func (t *taking) goesTo(from zk.Zxid) (until, state zk.Zxid, err error) {
	between := func(last, next zk.Zxid) (state zk.Zxid) {
		state = zk.NoZxid
		for _, f := range t.snapshots { // newest first
			if last < f.Zxid && f.Zxid < next && f.Zxid <= t.committed {
				state = f.Zxid
			}
		}
		return state
	}
	if between(from, maxZxid) == zk.NoZxid {
		return t.committed, zk.NoZxid, nil
	}
	reader, err := t.read(from-1, true)
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	for last, sure := from, from; ; {
		next := maxZxid
		record, err := reader.Next()
		if err == nil {
			next = record.Zxid
		} else if err != io.EOF {
			return 0, 0, err
		}
		state := between(last, next)
		switch {
		case state == zk.NoZxid && (err == io.EOF || next > t.committed):
			return t.committed, state, nil
		case state == zk.NoZxid:
		case state.Epoch() == last.Epoch(): // a state of an epoch includes everything of that epoch before it
			return last, state, nil
		default:
			return sure, state, nil
		}
		// A server logs nothing of an epoch before the history with which its leader begins it,
		// and has snapshots only of what is committed.
		if next.Epoch() != last.Epoch() {
			sure = last
		}
		if last = next; slices.ContainsFunc(t.snapshots, func(f snap.File) bool { return f.Zxid == last }) {
			sure = last
		}
	}
}

// sameTime compares a record with the last one of the backup, whose time is in its name.
func (t *taking) sameTime(record *txnlog.Record, at time.Time) error {
	recorded, err := recordTime(record)
	if err == nil && !at.IsZero() && !recorded.Equal(at) {
		err = fmt.Errorf("%w: its transaction %s is of %s, and that in %s of %s", ErrOtherHistory, record.Zxid,
			at.Format(timeLayout), record.File, recorded.Format(timeLayout))
	}
	return err
}

func recordTime(record *txnlog.Record) (time.Time, error) {
	h, _, _, err := txn.Decode(record.Payload)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s at offset %d: %w", record.File, record.Offset, err)
	}
	return time.UnixMilli(h.Time).UTC(), nil
}

// last returns the last zxid of the log, or of the snapshots if that is higher.
func (t *taking) last() (zk.Zxid, error) {
	last := max(0, t.newestSnapshot())
	for i := len(t.segments) - 1; i >= 0; i-- { // the newest segment may have no record yet
		reader, err := t.read(t.segments[i].First-1, true)
		if err != nil {
			return 0, err
		}
		for err == nil {
			_, err = reader.Next()
		}
		found := reader.Last()
		if err := errors.Join(reader.Close(), ended(err)); err != nil {
			return 0, err
		}
		if found >= t.segments[i].First {
			return max(last, found), nil
		}
	}
	return last, nil
}

func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// read reads the log after a zxid.
func (t *taking) read(after zk.Zxid, gaps bool) (*txnlog.Reader, error) {
	options := txnlog.ReadOptions{PayloadBytesMax: t.source.PayloadBytesMax, AllowGaps: gaps}
	for _, s := range t.snapshots {
		options.Snapshots = append(options.Snapshots, s.Zxid)
	}
	return txnlog.NewReader(t.source.FS, t.source.LogDir, after, options)
}
