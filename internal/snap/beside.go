package snap

import (
	"github.com/conclave-project/conclave/internal/handover"
	"github.com/conclave-project/conclave/zk"
)

// If Options allow it, a large file is read, verified and decoded on one goroutine while
// another one processes its content. The decoder's Sink is then a relay, which hands over what
// it receives in parts. The Sink of the load is called on the goroutine that loads.
const (
	besideBytes  = 1 << 20 // minimum size of a file for which this is done
	partNodesMax = 1024
	partBytes    = 128 << 10 // of paths, data and ACLs; a znode that has more is not copied
	prepareMax   = 32        // number of znodes that a Preparer is told of before they come
)

// entry is one call of a Sink.
type entry struct {
	call   call
	number int64 // of the session, the ACL or the znode's ACL; for Expect, the number of znodes
	lease  int32 // timeout of a session
	acl    []zk.ACL
	path   string
	data   []byte
	stat   zk.StatPersisted
	body   uint32 // sums of a znode, see Preparer
	znode  uint64
	offset int64 // of a znode in the file
}

type call uint8

const (
	callSession call = iota
	callACL
	callExpect
	callNode
)

// part is what is handed over at a time.
type part struct {
	entries []entry
	text    []byte // paths and data of the entries
	weight  int    // bytes of the ACLs
	paths   []string
}

// relay is the Sink of a decoder that runs on another goroutine.
type relay struct {
	d    *decoder
	line *handover.Line[part]
	sums Preparer // nil if the Sink of the load is not a Preparer
}

// loadBeside is load with the decoder on a goroutine that beside starts.
func (d *decoder) loadBeside(beside func(func())) (info Info, err error) {
	sink := d.sink
	to, _ := sink.(Preparer)
	err = handover.Run(beside, func(l *handover.Line[part]) error {
		d.sink = &relay{d, l, to}
		var err error
		info, err = d.load()
		return err
	}, func(p *part) error {
		if err := p.pass(sink, to); err != nil {
			return d.sinkError(err)
		}
		clear(p.entries)
		p.entries, p.text, p.weight = p.entries[:0], p.text[:0], 0
		return nil
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// pass passes a part to a Sink, which is also a Preparer if to is not nil.
func (p *part) pass(sink Sink, to Preparer) error {
	for i := range p.entries {
		if to != nil && i%prepareMax == 0 {
			p.prepare(to, p.entries[i:min(i+prepareMax, len(p.entries))])
		}
		var err error
		switch e := &p.entries[i]; e.call {
		case callSession:
			err = sink.Session(zk.SessionID(e.number), e.lease)
		case callACL:
			err = sink.ACL(e.number, e.acl)
		case callExpect:
			if to != nil {
				to.Expect(int(e.number))
			}
		case callNode:
			if to != nil {
				err = to.NodeSummed(e.path, e.data, e.number, e.stat, e.body, e.znode)
			} else {
				err = sink.Node(e.path, e.data, e.number, e.stat)
			}
			if err != nil {
				err = nodeError(e.path, e.offset, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare tells a Preparer what comes next.
func (p *part) prepare(to Preparer, next []entry) {
	p.paths = p.paths[:0]
	for i := range next {
		if next[i].call == callNode {
			p.paths = append(p.paths, next[i].path)
		}
	}
	to.Prepare(p.paths)
}

// add returns the next entry of the part, for the caller to fill in.
func (r *relay) add(c call) *entry {
	p := r.line.Part
	p.entries = append(p.entries, entry{call: c})
	return &p.entries[len(p.entries)-1]
}

// added hands the part over if it is full.
func (r *relay) added() error {
	if p := r.line.Part; len(p.entries) < partNodesMax && len(p.text)+p.weight < partBytes {
		return nil
	}
	return r.line.HandOver()
}

// Session implements Sink.
func (r *relay) Session(id zk.SessionID, timeoutMs int32) error {
	e := r.add(callSession)
	e.number, e.lease = int64(id), timeoutMs
	return r.added()
}

// ACL implements Sink.
func (r *relay) ACL(id int64, entries []zk.ACL) error {
	p := r.line.Part
	p.weight += 40 * len(entries)
	for i := range entries {
		p.weight += len(entries[i].Scheme) + len(entries[i].ID)
	}
	e := r.add(callACL)
	e.number, e.acl = id, entries
	return r.added()
}

// Expect implements expecter.
func (r *relay) Expect(znodes int) { r.add(callExpect).number = int64(znodes) }

// Node implements Sink.
func (r *relay) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	e, p := r.add(callNode), r.line.Part
	e.number, e.path, e.data, e.stat, e.offset = acl, path, data, stat, r.d.position()
	if r.sums != nil {
		e.body, e.znode = r.sums.Sum(path, data, &e.stat)
	}
	if len(path)+len(data) > partBytes { // too long to copy: wait until it has been processed
		return r.line.Wait()
	}
	start := len(p.text)
	p.text = append(append(p.text, path...), data...)
	text := p.text[start:len(p.text):len(p.text)]
	e.path = aliasText(text[:len(path)])
	if len(data) > 0 { // null stays null, empty stays empty
		e.data = text[len(path):]
	}
	return r.added()
}
