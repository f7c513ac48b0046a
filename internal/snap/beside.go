package snap

import (
	"github.com/conclave-project/conclave/internal/handover"
	"github.com/conclave-project/conclave/zk"
)

// A large file is read, verified and taken apart beside what becomes of its content, if Options
// say how: the decoder's Sink is a relay, which hands over what it is given in parts. The Sink of
// the load is called on the goroutine that loads.
const (
	besideBytes  = 1 << 20 // of a file that is worth it
	partNodesMax = 1024
	partBytes    = 128 << 10 // of paths, data and lists; a znode that has more is no copy
	prepareMax   = 32        // znodes of which a Preparer knows before they come
)

// entry is one call of a Sink.
type entry struct {
	call   call
	number int64 // of the session, of the list of the table or of a znode; for Expect, of znodes
	lease  int32 // of a session
	acl    []zk.ACL
	path   string
	data   []byte
	stat   zk.StatPersisted
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
	weight  int    // bytes of the lists of ACLs
	paths   []string
}

// relay is the Sink of a decoder that runs beside.
type relay struct {
	d    *decoder
	line *handover.Line[part]
}

// loadBeside is load with the decoder on a goroutine that beside starts.
func (d *decoder) loadBeside(beside func(func())) (info Info, err error) {
	sink := d.sink
	err = handover.Run(beside, func(l *handover.Line[part]) error {
		d.sink = &relay{d, l}
		var err error
		info, err = d.load()
		return err
	}, func(p *part) error {
		if err := p.pass(sink); err != nil {
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

// pass gives a part to a Sink.
func (p *part) pass(sink Sink) error {
	to, prepares := sink.(Preparer)
	for i := range p.entries {
		if prepares && i%prepareMax == 0 {
			p.prepare(to, p.entries[i:min(i+prepareMax, len(p.entries))])
		}
		var err error
		switch e := &p.entries[i]; e.call {
		case callSession:
			err = sink.Session(zk.SessionID(e.number), e.lease)
		case callACL:
			err = sink.ACL(e.number, e.acl)
		case callExpect:
			if prepares {
				to.Expect(int(e.number))
			}
		case callNode:
			if err = sink.Node(e.path, e.data, e.number, e.stat); err != nil {
				err = nodeError(e.path, e.offset, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare tells a Sink what comes next.
func (p *part) prepare(to Preparer, next []entry) {
	p.paths = p.paths[:0]
	for i := range next {
		if next[i].call == callNode {
			p.paths = append(p.paths, next[i].path)
		}
	}
	to.Prepare(p.paths)
}

// add adds a call to the part.
func (r *relay) add(e *entry) error {
	p := r.line.Part
	if p.entries = append(p.entries, *e); len(p.entries) < partNodesMax && len(p.text)+p.weight < partBytes {
		return nil
	}
	return r.line.HandOver()
}

// Session implements Sink.
func (r *relay) Session(id zk.SessionID, timeoutMs int32) error {
	return r.add(&entry{call: callSession, number: int64(id), lease: timeoutMs})
}

// ACL implements Sink.
func (r *relay) ACL(id int64, entries []zk.ACL) error {
	p := r.line.Part
	p.weight += 40 * len(entries)
	for i := range entries {
		p.weight += len(entries[i].Scheme) + len(entries[i].ID)
	}
	return r.add(&entry{call: callACL, number: id, acl: entries})
}

// Expect implements Preparer.
func (r *relay) Expect(znodes int) {
	r.line.Part.entries = append(r.line.Part.entries, entry{call: callExpect, number: int64(znodes)})
}

// Prepare implements Preparer.
func (r *relay) Prepare([]string) {}

// Node implements Sink.
func (r *relay) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	e := entry{call: callNode, number: acl, path: path, data: data, stat: stat, offset: r.d.position()}
	p := r.line.Part
	if len(path)+len(data) > partBytes { // it is not copied
		p.entries = append(p.entries, e)
		return r.line.Wait()
	}
	start := len(p.text)
	p.text = append(append(p.text, path...), data...)
	text := p.text[start:len(p.text):len(p.text)]
	e.path = aliasText(text[:len(path)])
	if len(data) > 0 { // null stays null, empty stays empty
		e.data = text[len(path):]
	}
	return r.add(&e)
}
