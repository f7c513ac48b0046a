package snap

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// calls is a Sink that keeps a sum of what it is given, and fails at one call.
type calls struct {
	printer
	count, failAt int
	expected      int      // by Expect
	prepared      []string // announced paths that have not come yet
	summed        int      // znodes that came with their sums
}

var errCall = errors.New("this call is refused")

func (c *calls) next(text func() error) error {
	if c.count++; c.count == c.failAt {
		return errCall
	}
	return text()
}

func (c *calls) Session(id zk.SessionID, timeoutMs int32) error {
	return c.next(func() error { return c.printer.Session(id, timeoutMs) })
}

func (c *calls) ACL(id int64, entries []zk.ACL) error {
	return c.next(func() error { return c.printer.ACL(id, entries) })
}

func (c *calls) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	if len(c.prepared) > 0 {
		if c.prepared[0] != path {
			return fmt.Errorf("%q comes, not %q", path, c.prepared[0])
		}
		c.prepared = c.prepared[1:]
	}
	return c.next(func() error { return c.printer.Node(path, data, acl, stat) })
}

// Sum is a function of everything that it is given, and NodeSummed checks that it has the right
// one.
func (*calls) Sum(path string, data []byte, stat *zk.StatPersisted) (body uint32, znode uint64) {
	h := fnv.New64()
	fmt.Fprint(h, path, data == nil, data, *stat)
	return uint32(h.Sum64()), h.Sum64() * 3
}

func (c *calls) NodeSummed(path string, data []byte, acl int64, stat zk.StatPersisted, body uint32, znode uint64) error {
	if wantBody, wantZnode := c.Sum(path, data, &stat); body != wantBody || znode != wantZnode {
		return fmt.Errorf("%q has the sums of another", path)
	}
	c.summed++
	return c.Node(path, data, acl, stat)
}

func (c *calls) Expect(znodes int) { c.expected = znodes }

func (c *calls) Prepare(paths []string) {
	for _, p := range paths {
		c.prepared = append(c.prepared, strings.Clone(p))
	}
}

// largeFile writes a file of some MiB with everything with which a part can end: short znodes,
// long ones, none.
func largeFile(t testing.TB, disk *vfs.Mem, c Compression) (File, int) {
	t.Helper()
	const sessions, lists, nodes = 2000, 1200, 7000
	random := rand.New(rand.NewPCG(3, 5))
	w, err := Create(disk, dir, 9, c)
	must(t, err)
	_ = w.Begin(sessions, lists)
	for i := range sessions {
		_ = w.Session(zk.SessionID(i), int32(i))
	}
	for i := range lists {
		_ = w.ACL(int64(i+1), []zk.ACL{{Perms: zk.Perms(i), Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprint(i)}}})
	}
	for i := range nodes {
		var data []byte
		switch random.IntN(8) {
		case 0:
			data = []byte{}
		case 1, 2, 3, 4:
			data = bytes.Repeat([]byte{byte(i)}, random.IntN(600))
		case 5:
			if i%100 == 0 {
				data = bytes.Repeat([]byte{byte(i)}, partBytes-10+random.IntN(20))
			}
		}
		_ = w.Node(fmt.Sprintf("/n%d", i), data, int64(i%lists), &zk.StatPersisted{Czxid: zk.Zxid(i)})
	}
	must(t, w.End(9, zk.Digest{Version: 2, Value: 5}, 9))
	must(t, w.Commit())
	files, err := Files(disk, dir)
	must(t, err)
	return files[0], sessions + lists + nodes
}

// besides counts the goroutines that a load has begun, and waits for them.
type besides struct {
	sync.WaitGroup
	begun int
}

func (b *besides) run(f func()) {
	b.begun++
	b.Go(f)
}

// A load with two goroutines gives the Sink the same calls in the same order as a load on one.
func TestLoadBesideIsTheSame(t *testing.T) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		disk := newDisk(t)
		file, count := largeFile(t, disk, c)
		var alone, beside calls
		want, err := LoadFile(disk, dir, file, Options{}, &alone)
		must(t, err)
		var b besides
		got, err := LoadFile(disk, dir, file, Options{Beside: b.run}, &beside)
		must(t, err)
		if got != want || beside.String() != alone.String() {
			t.Errorf("%q: %+v, not %+v, or other calls", c, got, want)
		}
		b.Wait()
		if size := must1(must1(disk.Open(filepath.Join(dir, file.Name))).Size()); (b.begun == 1) != (size >= besideBytes) {
			t.Errorf("%q: %d goroutines for %d bytes", c, b.begun, size)
		}
		if alone.summed != 0 || beside.summed != b.begun*got.Nodes {
			t.Errorf("%q: %d and %d znodes of %d came with sums", c, alone.summed, beside.summed, got.Nodes)
		}
		if alone.count != count || beside.count != count {
			t.Errorf("%q: %d and %d calls of %d", c, alone.count, beside.count, count)
		}
		if c == Plain && (beside.expected == 0 || beside.expected != alone.expected) {
			t.Errorf("%d and %d znodes were expected", beside.expected, alone.expected)
		}
	}
}

func write(t testing.TB, disk *vfs.Mem, name string, content []byte) {
	t.Helper()
	_, err := must1(disk.Create(filepath.Join(dir, name))).Write(content)
	must(t, err)
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Wherever the Sink fails, the load ends with its error, and its goroutine ends with it.
func TestSinkThatFailsEndsALoadBeside(t *testing.T) {
	disk := newDisk(t)
	file, count := largeFile(t, disk, Plain)
	for _, at := range []int{1, 2000, 3201, 4300, count} {
		var b besides
		sink := &calls{failAt: at}
		_, err := LoadFile(disk, dir, file, Options{Beside: b.run}, sink)
		if !errors.Is(err, errCall) || vfs.IsCorruption(err) || !strings.Contains(err.Error(), file.Name) {
			t.Errorf("call %d: %v", at, err)
		}
		_, alone := LoadFile(disk, dir, file, Options{}, &calls{failAt: at})
		if err.Error() != alone.Error() {
			t.Errorf("call %d: %q, on one goroutine %q", at, err, alone)
		}
		if sink.count != at {
			t.Errorf("call %d: %d calls", at, sink.count)
		}
		b.Wait()
	}
}

// Damage is found as on one goroutine.
func TestDamageIsFoundBeside(t *testing.T) {
	disk := newDisk(t)
	file, _ := largeFile(t, disk, Plain)
	content := must1(vfs.ReadFile(disk, filepath.Join(dir, file.Name), 1<<30))
	for _, at := range []int{0, 40_000, len(content) / 2, len(content) - 1} {
		for _, cut := range []bool{false, true} {
			damaged := slices.Clone(content)
			damaged[at] ^= 1
			if cut {
				damaged = damaged[:max(at, besideBytes)]
			}
			other := newDisk(t)
			write(t, other, file.Name, damaged)
			_, alone := LoadFile(other, dir, file, Options{}, new(calls))
			var b besides
			_, err := LoadFile(other, dir, file, Options{Beside: b.run}, new(calls))
			if !vfs.IsCorruption(err) || err.Error() != alone.Error() {
				t.Errorf("byte %d, cut %v: %v, on one goroutine %v", at, cut, err, alone)
			}
			b.Wait()
		}
	}
}

// A long znode takes no memory besides that of the decoder, and the znodes after it are right.
func TestLongZnodesAreNotCopied(t *testing.T) {
	var content bytes.Buffer
	e := NewEncoder(&content)
	_ = e.Begin(0, 0)
	for i := range 12 {
		_ = e.Node(fmt.Sprintf("/n%d", i), bytes.Repeat([]byte{byte(i)}, 3*partBytes), -1, &zk.StatPersisted{})
		_ = e.Node(fmt.Sprintf("/m%d", i), []byte("short"), -1, &zk.StatPersisted{})
	}
	must(t, e.End(0, zk.Digest{}, 0))
	disk := newDisk(t)
	write(t, disk, Name(1, Plain), content.Bytes())
	var alone, beside calls
	file := File{Name: Name(1, Plain), Zxid: 1}
	must1(LoadFile(disk, dir, file, Options{}, &alone))
	var b besides
	must1(LoadFile(disk, dir, file, Options{Beside: b.run}, &beside))
	b.Wait()
	if beside.String() != alone.String() {
		t.Error("the calls differ")
	}
}

// Later znodes may be longer than earlier ones: the number expected is not many times the
// number that came.
func TestExpectedAreNotManyTimesThoseThatCame(t *testing.T) {
	var content bytes.Buffer
	e := NewEncoder(&content)
	_ = e.Begin(0, 0)
	for i := range sampleFirst + 1 {
		_ = e.Node(fmt.Sprintf("/n%d", i), nil, -1, &zk.StatPersisted{})
	}
	for i := range 200 {
		_ = e.Node(fmt.Sprintf("/m%d", i), make([]byte, 100_000), -1, &zk.StatPersisted{})
	}
	must(t, e.End(0, zk.Digest{}, 0))
	disk := newDisk(t)
	write(t, disk, Name(1, Plain), content.Bytes())
	sink := new(expecting)
	must1(LoadFile(disk, dir, File{Name: Name(1, Plain), Zxid: 1}, Options{}, sink))
	if sink.most == 0 || sink.most > sampleFirst*sampleFactor {
		t.Errorf("%d znodes were expected", sink.most)
	}
}

type expecting struct {
	Discard
	most int
}

func (e *expecting) Expect(znodes int) { e.most = max(e.most, znodes) }

// lists keeps no ACL lists, and measures the heap while they arrive.
type lists struct {
	Discard
	most uint64
}

func (l *lists) ACL(int64, []zk.ACL) error {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.most = max(l.most, m.HeapAlloc)
	return nil
}

// Long ACL lists wait for their turn, as long znodes do (snap-P4).
func TestLongListsAreFewAtATime(t *testing.T) {
	var content bytes.Buffer
	e := NewEncoder(&content)
	const count, entries = 40, 20_000
	_ = e.Begin(0, count)
	for i := range count {
		_ = e.ACL(int64(i+1), make([]zk.ACL, entries))
	}
	must(t, e.End(0, zk.Digest{}, 0))
	disk := newDisk(t)
	write(t, disk, Name(1, Plain), content.Bytes())
	file := File{Name: Name(1, Plain), Zxid: 1}
	var alone, beside lists
	var b besides
	must1(LoadFile(disk, dir, file, Options{}, &alone))
	must1(LoadFile(disk, dir, file, Options{Beside: b.run}, &beside))
	b.Wait()
	const list = entries * 48 // bytes of the entries; append leaves as much behind, and parts are on their way
	if b.begun != 1 || beside.most > alone.most+count/2*list {
		t.Errorf("%d MiB, and %d MiB on one goroutine", beside.most>>20, alone.most>>20)
	}
}

// Parts are reused: a load takes memory for four of them, not for the file (snap-P4).
func TestPartsAreUsedAgain(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, Name(1, Plain), nodes100(t, 100_000))
	file := File{Name: Name(1, Plain), Zxid: 1}
	allocated := func(o Options) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		info := must1(LoadFile(disk, dir, file, o, Discard{}))
		runtime.ReadMemStats(&after)
		if info.Nodes != 100_000 {
			t.Fatalf("%d znodes", info.Nodes)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	var b besides
	alone, beside := allocated(Options{}), allocated(Options{Beside: b.run})
	b.Wait()
	const part = 2 << 20 // of entries and text, and of the smaller buffers that they have grown from
	if b.begun != 1 || beside > alone+partsOfALine*part {
		t.Errorf("%d KiB, and %d KiB on one goroutine", beside>>10, alone>>10)
	}
}

// partsOfALine is how many parts handover has.
const partsOfALine = 4
