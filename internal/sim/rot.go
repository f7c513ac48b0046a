package sim

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
)

// What a disk does wrong besides losing unsynced data: it changes a byte, fails to read, or
// reports a write that it has not done, or has done elsewhere. What a server promises in
// these cases:
//
//	a byte changed       refused at the next start, wherever the byte is; in the newest
//	                     segment too, unless the machine has lost power as well
//	a failed read        the server ends, or does not start, and says why; nothing
//	                     counts as missing because it could not be read
//	a bad write, of a    refused at the next start, or the snapshot before and the log
//	snapshot or epoch    after it are used
//	a bad write, of the  the end of the log is missing. If only the process ends, what
//	log, or a shorter    it noted beside the log shows that: it has no vote until a
//	log                  leader has sent it everything. If the machine loses power, the
//	                     note may be as old as what is left: that cannot be distinguished
//	                     from a crash, and costs one disk of a majority. Digests show it
//	                     once the history continues after it, unless everything missing
//	                     changes nothing: a write that was refused, the last of its
//	                     epoch. Nothing ever shows that
//
// In no case is anything served that was not written.

// rot is what is wrong with a server's disk.
type rot struct {
	readUntilMs int64 // until when reads may fail
	readOneIn   int
	bad         *badWrite // one of the next writes will be bad
	suspectMs   int64     // until then a write may be bad, or may have been, in any life
	lied        bool      // the end of the log may be missing without anybody knowing
	lost        bool      // the disk is new, or known to lack the end of the log, and has no whole history yet, so what is on it does not count
	random      *random
}

// badWrite is a write that will be lost, or done elsewhere.
type badWrite struct {
	kind   string // the beginning of the file's name: log, snapshot, or with Epoch in it
	offset int64  // the distance from the right place; 0 means that it is lost
}

// failsRead reports whether a read of the disk fails now.
func (p *process) failsRead(op vfs.Op) bool {
	r := &p.rot
	if p.w.nowMs >= r.readUntilMs {
		return false
	}
	switch op.Kind {
	case vfs.KindRead, vfs.KindOpen, vfs.KindList, vfs.KindStat:
		if r.random.oneIn(r.readOneIn) {
			p.w.tally.ReadErrors++
			return true
		}
	}
	return false
}

// shifty is a disk that now and then does not do the write that it reports.
type shifty struct {
	vfs.FS
	p     *process
	names map[*shiftyFile]string
}

// Create implements vfs.FS.
func (s *shifty) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	if err != nil {
		return nil, err
	}
	file := &shiftyFile{File: f, disk: s}
	s.names[file] = name
	return file, nil
}

// Rename implements vfs.FS.
func (s *shifty) Rename(source, target string) error {
	err := s.FS.Rename(source, target)
	for file, name := range s.names {
		if err == nil && name == source {
			s.names[file] = target
		}
	}
	return err
}

type shiftyFile struct {
	vfs.File
	disk *shifty
	at   int64
}

func (f *shiftyFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.at += int64(n)
	return n, err
}

func (f *shiftyFile) Write(p []byte) (int, error) {
	at, name, bad := f.at, f.disk.names[f], f.disk.p.rot.bad
	hits := bad != nil && len(p) > 0 && strings.Contains(filepath.Base(name), bad.kind) && at > 0 == (bad.kind == "log.")
	var was []byte
	if hits {
		was = f.disk.p.onDisk(name, at, len(p))
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	if hits && err == nil {
		f.disk.p.misplace(name, at, p, was)
	}
	return n, err
}

// onDisk returns the bytes of a file at an offset, zeros after its end.
func (p *process) onDisk(name string, at int64, bytes int) []byte {
	b := make([]byte, bytes)
	if f, err := p.mem.Open(name); err == nil {
		_, _ = f.ReadAt(b, at)
		_ = f.Close()
	}
	return b
}

func (f *shiftyFile) Close() error {
	delete(f.disk.names, f)
	return f.File.Close()
}

// misplace undoes a write and does it elsewhere in its file, if the fault says so and the
// file is long enough.
func (p *process) misplace(name string, at int64, written, was []byte) {
	bad := p.rot.bad
	p.rot.bad = nil
	p.w.trouble.damaged[p] = p.life // the fault may have been planned in an earlier life
	if bad.kind == "log." {
		p.rot.lied = true
		p.w.trouble.unseen = p.w.trouble.unseen || changesNothing(written)
	}
	p.w.tally.BadWrites++
	p.w.note(p.node, "bad-write", 0, 0, name)
	p.overwrite(name, at, written, was)
	if elsewhere := max(at-bad.offset, 0); bad.offset != 0 {
		p.overwrite(name, elsewhere, p.onDisk(name, elsewhere, len(written)), written)
	}
}

// changesNothing reports whether all records of a write to the log leave the tree and the
// sessions unchanged.
func changesNothing(written []byte) bool {
	const head, tail = 12, 1 // checksum and length before a record, the end mark after it
	records := 0
	for ; len(written) > head; records++ {
		length := int(binary.BigEndian.Uint32(written[8:]))
		if length == 0 || head+length+tail > len(written) {
			break // zeros: space that was reserved
		}
		_, t, _, err := txn.Decode(written[head : head+length])
		if err != nil || !check.ChangesNothing(&t) {
			return false
		}
		written = written[head+length+tail:]
	}
	return records > 0
}

// overwrite changes bytes on the disk from what they are.
func (p *process) overwrite(name string, at int64, from, to []byte) {
	for i := range to {
		if from[i] != to[i] {
			_ = p.mem.FlipByte(name, at+int64(i), from[i]^to[i])
		}
	}
}

// strikeRot damages a server's disk.
func (t *trouble) strikeRot(f *Fault, p *process) {
	switch f.Kind {
	case FaultReadError:
		p.rot.readUntilMs, p.rot.readOneIn = t.w.nowMs+f.ForMs, int(f.N)
		if f.N%2 == 0 { // read errors at its start
			p.kill("its disk fails")
			t.bringBack(p, f.ForMs/4)
		}
	case FaultFlip, FaultFlipNewest:
		// Two damaged bytes in the newest segment may look like a torn end.
		if (p.up || f.Kind == FaultFlip) && t.mayDamage(p) {
			t.flip(p, uint64(f.N), f.Kind == FaultFlipNewest)
			p.kill("flipped")
			t.bringBack(p, f.ForMs)
		}
	case FaultShortLog:
		if t.mayDamage(p) {
			p.kill("its log is shortened")
			t.shorten(p, uint64(f.N)>>1)
			t.bringBack(p, f.ForMs)
			if f.N%2 == 1 {
				t.exchange(p, f.ForMs)
			}
		}
	case FaultLostWrite, FaultStrayWrite:
		if !p.up || !p.serving || !t.mayDamage(p) {
			return
		}
		bad := &badWrite{kind: []string{"log.", "snapshot.", "Epoch"}[f.N%3]}
		if f.Kind == FaultStrayWrite {
			bad.offset = 512 * (1 + f.N/3%8)
		}
		p.rot.bad, p.rot.suspectMs = bad, t.w.nowMs+f.ForMs
		t.w.after(f.ForMs, func() {
			if p.rot.bad == bad {
				p.rot.bad = nil
			}
			t.damaged[p] = p.life // it may not have been read at an earlier restart
			p.kill("a write was bad")
			t.bringBack(p, 0)
		})
	}
}

// flip changes a byte in the newest segment of the log, or in any other file.
func (t *trouble) flip(p *process, number uint64, inNewest bool) {
	logDir := t.w.plan.logDir() + "/version-2"
	dir := logDir
	if !inNewest && number>>48&1 == 0 {
		dir = dataDir + "/version-2"
	}
	names, err := p.mem.List(dir)
	if err != nil {
		return
	}
	segments, _ := txnlog.Segments(p.mem, logDir)
	newest := ""
	if n := len(segments); n > 0 {
		newest = segments[n-1].Name
	}
	var files []string
	for _, name := range names {
		if (name == newest) == inNewest && !strings.HasSuffix(name, ".tmp") && name != "reserve" && name != "spare" {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return
	}
	name := dir + "/" + files[number%uint64(len(files))]
	info, err := p.mem.Stat(name)
	if err != nil || info.Size == 0 {
		return
	}
	offset := int64(number >> 8 % uint64(info.Size))
	if inNewest { // most of it is reserved space
		offset = int64(number >> 8 % uint64(max(writtenBytes(p.mem, name, info.Size), 1)))
	}
	t.w.note(p.node, "flip", 0, 0, name)
	_ = p.mem.FlipByte(name, offset, 1<<(number>>40&7))
}

// shorten removes the end of the newest segment of the log.
func (t *trouble) shorten(p *process, number uint64) {
	dir := t.w.plan.logDir() + "/version-2"
	segments, _ := txnlog.Segments(p.mem, dir)
	if len(segments) == 0 {
		return
	}
	name := dir + "/" + segments[len(segments)-1].Name
	info, err := p.mem.Stat(name)
	must(err)
	left := int64(number % uint64(max(writtenBytes(p.mem, name, info.Size), 1)))
	t.w.note(p.node, "shorten", 0, 0, name)
	file, err := p.mem.OpenReadWrite(name)
	must(err)
	must(file.Truncate(left))
	must(file.Sync())
	must(file.Close())
	p.rot.lied = true // unless the server finds out
}

// writtenBytes returns the length of a file without the zeros at its end.
func writtenBytes(fsys vfs.FS, name string, size int64) int64 {
	content, err := vfs.ReadFile(fsys, name, size)
	if err != nil {
		return 0
	}
	return int64(len(strings.TrimRight(string(content), "\x00")))
}

// tolerated returns how many disks may be damaged at the same time: only the loss of a
// minority must be survived, in any configuration.
func (t *trouble) tolerated() int {
	if t.w.plan.Reconfig {
		return 1
	}
	return (t.w.plan.Participants - 1) / 2
}

// damagedNow returns how many disks count as damaged: each one until its server has
// restarted and serves.
func (t *trouble) damagedNow() int {
	for q, life := range t.damaged {
		if q.serving && q.life > life && t.w.nowMs >= max(q.untilMs, q.rot.suspectMs+1) {
			delete(t.damaged, q)
		}
	}
	return len(t.damaged)
}

// mayDamage reports whether a server's disk may be damaged, and records that it is.
func (t *trouble) mayDamage(p *process) bool {
	now := t.damagedNow()
	if !t.w.spared(p) || t.changing() {
		return false
	}
	if _, is := t.damaged[p]; is {
		return !p.up // if it is up, the damage may not be known yet
	}
	if now >= max(t.tolerated(), 1) || !p.up || !p.serving {
		return false // it may hold what only few servers have
	}
	t.damaged[p] = p.life
	return true
}

// isDamaged reports whether a server may find its disk damaged.
func (t *trouble) isDamaged(p *process) bool {
	_, is := t.damaged[p]
	return is
}

// errBeyond ends a run with more faults than anybody promises to survive.
var errBeyond = errors.New("more is wrong than can be survived")

// excused reports whether an error follows from a disk that reported writes at the end of a
// log which it had not done. Then a majority was none; or the log lacks, unnoticed, a
// record that changes nothing, and so do those who have read it there.
func (t *trouble) excused(err error) bool {
	var v *check.Violation
	if !errors.As(err, &v) || v.Property != "zab" {
		return false
	}
	if t.unseen {
		return true
	}
	for _, p := range t.w.servers {
		if p.rot.lied {
			return true
		}
	}
	return false
}
