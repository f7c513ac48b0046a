package backup

import (
	"context"
	"fmt"
	"io"

	"github.com/conclave-project/conclave/zk"
)

// Verify loads every snapshot and reads every log, and returns the last state. From each
// snapshot the log is replayed up to where the next one is exact. There the two trees must be
// the same, even if the log has no digests. An error says what is damaged, or where a digest
// differs.
func (b *Backup) Verify(ctx context.Context) (*State, error) {
	v := &verifying{Backup: b, ctx: ctx, read: map[string]bool{}}
	b.eachRange(func(base piece, r Range) {
		v.bases, v.ranges = append(v.bases, base), append(v.ranges, r)
	})
	if len(v.ranges) == 0 {
		return nil, fmt.Errorf("%w: it has no snapshot with the log that belongs to it", ErrOutside)
	}
	for i := range v.ranges {
		if err := v.stretch(i); err != nil {
			return nil, err
		}
	}
	for _, p := range b.pieces {
		if v.read[p.name] {
			continue
		}
		if err := v.alone(p); err != nil {
			return nil, fmt.Errorf("load %s: %w", p.name, err)
		}
	}
	return v.last, nil
}

// verifying is one call of Verify.
type verifying struct {
	*Backup
	ctx    context.Context
	bases  pieces
	ranges []Range
	read   map[string]bool // the pieces that were read to their end

	meets  bool      // the log after the previous snapshot leads to this one
	meet   zk.Zxid   // where it does
	before zk.Digest // digest of the previous tree there
	last   *State
}

// stretch loads from one snapshot up to where the next one is exact, or as far as the log goes.
func (v *verifying) stretch(i int) error {
	r := &v.ranges[i]
	to, meets := r.Last, false
	if i+1 < len(v.ranges) {
		if next := max(r.First, v.ranges[i+1].First); next <= r.Last {
			to, meets = next, true
		}
	}
	l := &loading{ctx: v.ctx, place: v.place, moment: Moment{Zxid: to}, base: v.bases[i], meet: v.meet}
	if err := l.load(v.ways.chain(l.base, to)); err != nil {
		return err
	}
	if err := l.differs(); err != nil {
		return err
	}
	if v.meets && l.met != v.before {
		return fmt.Errorf("at %s, the tree of %s is not the one to which the snapshot and the log before it lead: the digests differ", v.meet, l.base.name)
	}
	for _, name := range l.read {
		v.read[name] = true
	}
	if v.meets, v.meet, v.before = meets, to, l.state.Tree().Digest(); i == len(v.ranges)-1 {
		v.last = l.state // earlier states are not kept, because each is as large as a server
	}
	return nil
}

// differs returns an error if a tree did not have the digest that the leader noted.
func (l *loading) differs() error {
	if n, first := l.target.Mismatches(); n > 0 {
		return fmt.Errorf("after %s, the tree is not the one that was backed up: its digest differs", first)
	}
	return nil
}

// alone reads a piece that no state needs now, or of which the states did not need everything.
func (v *verifying) alone(p piece) error {
	l := &loading{ctx: v.ctx, place: v.place, base: p}
	if !p.log {
		if err := l.snapshot(); err != nil {
			return err
		}
		return l.differs()
	}
	reader, err := l.reader(p)
	if err != nil {
		return err
	}
	defer reader.Close()
	for last := zk.NoZxid; ; {
		record, err := reader.Next()
		if err == io.EOF {
			return whole(p, last, reader.Torn())
		}
		if err != nil {
			return err
		}
		last = record.Zxid
	}
}
