package snap

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

const dir = "version-2"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// printer is a Sink that writes down what it is given.
type printer struct{ strings.Builder }

func (p *printer) Session(id zk.SessionID, timeoutMs int32) error {
	fmt.Fprintf(p, "session %s %d\n", id, timeoutMs)
	return nil
}

func (p *printer) ACL(id int64, entries []zk.ACL) error {
	fmt.Fprintf(p, "acl %d %v\n", id, entries)
	return nil
}

func (p *printer) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	text := fmt.Sprintf("%q", data)
	if data == nil {
		text = "null"
	}
	fmt.Fprintf(p, "node %q %s %d %v\n", path, text, acl, stat)
	return nil
}

// fill writes a small snapshot of everything.
func fill(e *Encoder) error {
	_ = e.Begin(2, 2)
	_ = e.Session(-5, 30000)
	_ = e.Session(0x100000000000001, 4000)
	_ = e.ACL(1, zk.ReadACL())
	_ = e.ACL(7, []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: "a:b"}}, {Perms: 1}})
	_ = e.Node("", []byte{}, -1, &zk.StatPersisted{})
	_ = e.Node("/zookeeper", []byte{}, -1, &zk.StatPersisted{})
	_ = e.Node("/null", nil, 7, &zk.StatPersisted{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: -5, Cversion: 6,
		Aversion: 7, EphemeralOwner: -8, Pzxid: 9})
	_ = e.Node("/\U0001F600\xed\xa0\xbd", bytes.Repeat([]byte("data"), 100), 1, &zk.StatPersisted{})
	return e.End(0x100000009, zk.Digest{Version: 2, Value: 0x1234567890}, 0x10000000a)
}

func stream(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, fill(NewEncoder(&b)))
	return b.Bytes()
}

func newDisk(t testing.TB) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	must(t, disk.MkdirAll(dir))
	must(t, disk.SyncDir("."))
	return disk
}

// The first snapshot of an empty ensemble, byte by byte as ZooKeeper writes it.
func TestBytesAreThoseOfZooKeeper(t *testing.T) {
	zero60 := strings.Repeat("00", 60)
	open := "ffffffffffffffff"
	text := func(s string) string { return fmt.Sprintf("%08x%x", len(s), s) }
	config := "version=0"
	body := "5a4b534e00000002ffffffffffffffff" + "00000000" +
		"00000001" + "0000000000000001" + "00000001" + "00000001" + text("world") + text("anyone") +
		text("") + "00000000" + open + zero60 +
		text("/zookeeper") + "00000000" + open + zero60 +
		text("/zookeeper/config") + text(config) + "0000000000000001" +
		"0000000000000000" + "0000000000000000" + "0000000000000000" + "000001a1fac0ee69" +
		"ffffffff" + "00000000" + "ffffffff" + "0000000000000000" + "0000000000000000" +
		text("/zookeeper/quota") + "00000000" + open + zero60 +
		text("/")
	want, err := hex.DecodeString(body)
	must(t, err)
	seal := func() {
		want = binary.BigEndian.AppendUint64(want, uint64(adler32.Checksum(want)))
		want = append(want, 0, 0, 0, 1, '/')
	}
	seal()
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0)
	seal()
	want = append(want, make([]byte, 8)...)
	seal()

	var got bytes.Buffer
	e := NewEncoder(&got)
	must(t, e.Begin(0, 1))
	must(t, e.ACL(1, zk.ReadACL()))
	must(t, e.Node("", []byte{}, -1, &zk.StatPersisted{}))
	must(t, e.Node("/zookeeper", []byte{}, -1, &zk.StatPersisted{}))
	must(t, e.Node("/zookeeper/config", []byte(config), 1, &zk.StatPersisted{Mtime: 0x1a1fac0ee69, Version: -1, Aversion: -1}))
	must(t, e.Node("/zookeeper/quota", []byte{}, -1, &zk.StatPersisted{}))
	must(t, e.End(0, zk.Digest{}, 0))
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got\n%x\nwant\n%x", got.Bytes(), want)
	}
}

func TestWhatWasWrittenIsLoadedInEveryCompression(t *testing.T) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		disk := newDisk(t)
		w, err := Create(disk, dir, 0x100000009, c)
		must(t, err)
		must(t, fill(w.Encoder))
		must(t, w.Commit())
		sum := w.Sum()
		w.Abort()
		disk = disk.CrashClone(0, 1)
		files, err := Files(disk, dir)
		must(t, err)
		if len(files) != 1 || files[0].Zxid != 0x100000009 || files[0].Compression != c {
			t.Fatalf("files %v", files)
		}
		var got printer
		info, err := LoadFile(disk, dir, files[0], Options{}, &got)
		must(t, err)
		want := `session 0xfffffffffffffffb 30000
session 0x100000000000001 4000
acl 1 [{1 {world anyone}}]
acl 7 [{31 {digest a:b}} {1 { }}]
node "" "" -1 {0x0 0x0 0 0 0 0 0 0 0x0}
node "/zookeeper" "" -1 {0x0 0x0 0 0 0 0 0 0 0x0}
node "/null" null 7 {0x1 0x2 3 4 -5 6 7 -8 0x9}
node "/😀\xed\xa0\xbd" "` + strings.Repeat("data", 100) + `" 1 {0x0 0x0 0 0 0 0 0 0 0x0}
`
		if got.String() != want {
			t.Errorf("%q:\n%s", c, got.String())
		}
		if info.Sum != sum {
			t.Errorf("%q: it sums up to %x, written was %x", c, info.Sum, sum)
		}
		if info != (Info{Sessions: 2, ACLs: 2, Nodes: 4, Bytes: info.Bytes, Sum: sum, DigestZxid: 0x100000009,
			Digest: zk.Digest{Version: 2, Value: 0x1234567890}, Last: 0x10000000a}) {
			t.Errorf("%q: %+v", c, info)
		}
	}
}

func TestLargeSnapshotsPassTheWindows(t *testing.T) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		disk := newDisk(t)
		w, err := Create(disk, dir, 1, c)
		must(t, err)
		must(t, w.Begin(0, 0))
		for i := range 400 {
			must(t, w.Node(fmt.Sprintf("/n%d", i), bytes.Repeat([]byte{byte(i)}, i*7), -1, &zk.StatPersisted{}))
		}
		must(t, w.Node("/big", bytes.Repeat([]byte("x"), 1<<20), -1, &zk.StatPersisted{}))
		must(t, w.End(0, zk.Digest{}, 1))
		must(t, w.Commit())
		info, err := Verify(disk, dir, File{Name: w.Name(), Compression: c}, Options{})
		if err != nil || info.Nodes != 401 || info.Bytes != w.Bytes() {
			t.Errorf("%q: %+v %v, written %d", c, info, err, w.Bytes())
		}
	}
}

// ZooKeeper 3.5 ends after the first seal, 3.6 to 3.8 after the digest. A server without
// digests omits only that section.
func TestSectionsAreToldByTheirLength(t *testing.T) {
	whole := stream(t)
	body := whole[:len(whole)-tailBytesMax]
	lastOnly := binary.BigEndian.AppendUint64(append([]byte(nil), body...), 42)
	lastOnly = binary.BigEndian.AppendUint64(lastOnly, uint64(adler32.Checksum(lastOnly)))
	lastOnly = append(lastOnly, 0, 0, 0, 1, '/')
	for _, c := range []struct {
		name    string
		p       []byte
		version int32
		last    zk.Zxid
	}{
		{"3.5", body, 0, -1}, {"3.8", whole[:len(whole)-lastPartBytes], 2, -1}, {"3.9", whole, 2, 0x10000000a}, {"3.9 without digest", lastOnly, 0, 42},
	} {
		info, err := Load(bytes.NewReader(c.p), c.name, Options{}, Discard{})
		if err != nil || info.Digest.Version != c.version || info.Last != c.last {
			t.Errorf("%s: %+v %v", c.name, info, err)
		}
	}
}

func TestSnapshotCutAnywhereIsCorrupt(t *testing.T) {
	whole := stream(t)
	older := map[int]bool{len(whole) - tailBytesMax: true, len(whole) - lastPartBytes: true}
	for at := range whole {
		_, err := Load(bytes.NewReader(whole[:at]), "cut", Options{}, Discard{})
		if older[at] != (err == nil) || err != nil && !vfs.IsCorruption(err) {
			t.Fatalf("cut at %d of %d: %v", at, len(whole), err)
		}
	}
	if _, err := Load(bytes.NewReader(append(whole, 0)), "longer", Options{}, Discard{}); !vfs.IsCorruption(err) {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestEveryChangedByteIsCorrupt(t *testing.T) {
	whole, disk := stream(t), newDisk(t)
	for at := range whole {
		for _, mask := range []byte{1, 0x40, 0x80, 0xff} {
			damaged := append([]byte(nil), whole...)
			damaged[at] ^= mask
			if _, err := Load(bytes.NewReader(damaged), "flipped", Options{}, Discard{}); !vfs.IsCorruption(err) {
				t.Fatalf("byte %d ^ %#x: %v", at, mask, err)
			}
			write(t, disk, "flipped", damaged)
			if _, err := LoadFile(disk, dir, File{Name: "flipped"}, Options{}, Discard{}); !vfs.IsCorruption(err) {
				t.Fatalf("byte %d ^ %#x of a file: %v", at, mask, err)
			}
		}
	}
}

// A length counts only as far as bytes arrive: a gigabyte that somebody has written into a
// small file takes no gigabyte of memory.
func TestMemoryGrowsWithWhatComes(t *testing.T) {
	p := stream(t)
	at := bytes.Index(p, []byte("\x00\x00\x01\x90datadata"))
	binary.BigEndian.PutUint32(p[at:], 1<<30-1)
	for _, load := range []func(io.Reader, string, Options, Sink) (Info, error){Load, LoadStream} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := load(bytes.NewReader(p), "short", Options{BufferBytesMax: 1 << 30}, Discard{}); err == nil {
			t.Error("a snapshot that ends too early is loaded")
		}
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
			t.Errorf("%d bytes were taken for a file of %d", taken, len(p))
		}
	}
}

func TestCompressedSnapshotCutAnywhereIsCorrupt(t *testing.T) {
	for _, c := range []Compression{Gzip, Snappy} {
		disk := newDisk(t)
		w, err := Create(disk, dir, 1, c)
		must(t, err)
		must(t, fill(w.Encoder))
		must(t, w.Commit())
		whole, err := vfs.ReadFile(disk, filepath.Join(dir, w.Name()), 1<<20)
		must(t, err)
		for at := range whole {
			f, err := disk.Create(filepath.Join(dir, w.Name()))
			must(t, err)
			_, err = f.Write(whole[:at])
			must(t, err)
			if _, err := Verify(disk, dir, File{Name: w.Name(), Compression: c}, Options{}); !vfs.IsCorruption(err) {
				t.Fatalf("%s cut at %d of %d: %v", c, at, len(whole), err)
			}
		}
	}
}

func TestErrorsOfDiskAndSinkAreNotCorruption(t *testing.T) {
	disk := newDisk(t)
	w, err := Create(disk, dir, 1, Gzip)
	must(t, err)
	must(t, fill(w.Encoder))
	must(t, w.Commit())
	eio := errors.New("input/output error")
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindRead {
			return eio
		}
		return nil
	}}
	file := File{Name: w.Name(), Compression: Gzip}
	if _, err := Verify(faulty, dir, file, Options{}); !errors.Is(err, eio) || vfs.IsCorruption(err) {
		t.Errorf("unreadable disk: %v", err)
	}
	if _, err := LoadFile(disk, dir, file, Options{}, refusing{}); !errors.Is(err, io.ErrShortBuffer) || !strings.Contains(err.Error(), `"/null"`) {
		t.Errorf("refusing sink: %v", err)
	}
}

type refusing struct{ Discard }

func (refusing) Node(path string, _ []byte, _ int64, _ zk.StatPersisted) error {
	if path == "/null" {
		return io.ErrShortBuffer
	}
	return nil
}

func TestEncoderRefusesTheWrongOrder(t *testing.T) {
	for name, use := range map[string]func(*Encoder) error{
		"node first":        func(e *Encoder) error { return e.Node("", nil, -1, &zk.StatPersisted{}) },
		"session missing":   func(e *Encoder) error { _ = e.Begin(1, 0); return e.Node("", nil, -1, &zk.StatPersisted{}) },
		"one too many":      func(e *Encoder) error { _ = e.Begin(0, 0); return e.Session(1, 1) },
		"acl missing":       func(e *Encoder) error { _ = e.Begin(0, 1); return e.End(0, zk.Digest{}, 0) },
		"the mark as path":  func(e *Encoder) error { _ = e.Begin(0, 0); return e.Node("/", nil, -1, &zk.StatPersisted{}) },
		"begun twice":       func(e *Encoder) error { _ = e.Begin(0, 0); return e.Begin(0, 0) },
		"error does not go": func(e *Encoder) error { _ = e.End(0, zk.Digest{}, 0); return e.Begin(0, 0) },
	} {
		if use(NewEncoder(io.Discard)) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A long snapshot is made durable portion by portion: the last sync is as short as the others,
// so that the syncs of the log do not wait for it.
func TestALongSnapshotIsSyncedInPortions(t *testing.T) {
	var unsynced, most int64
	w, err := Create(&vfs.Faulty{Disk: newDisk(t), Before: func(op vfs.Op) error {
		switch op.Kind {
		case vfs.KindWrite:
			unsynced += op.Bytes
		case vfs.KindSync:
			most, unsynced = max(most, unsynced), 0
		}
		return nil
	}}, dir, 5, Plain)
	must(t, err)
	must(t, w.Begin(0, 0))
	must(t, w.Node("", nil, -1, &zk.StatPersisted{}))
	data := make([]byte, 1<<20)
	for i := range 5 * vfs.PortionBytes >> 20 {
		must(t, w.Node(fmt.Sprintf("/n%d", i), data, -1, &zk.StatPersisted{}))
	}
	must(t, w.End(5, zk.Digest{}, 5))
	must(t, w.Commit())
	if most < vfs.PortionBytes/2 || most > 2*vfs.PortionBytes {
		t.Errorf("%d bytes waited for one sync", most)
	}
}

func TestCrashOrFailureAtEveryOperationLeavesNoPartialSnapshot(t *testing.T) {
	write := func(fsys vfs.FS) error {
		w, err := Create(fsys, dir, 5, Plain)
		if err != nil {
			return err
		}
		_ = fill(w.Encoder)
		return w.Commit()
	}
	check := func(disk *vfs.Mem, title string) {
		t.Helper()
		files, err := Files(disk, dir)
		must(t, err)
		for _, file := range files {
			if _, err := Verify(disk, dir, file, Options{}); err != nil {
				t.Fatalf("%s: %v", title, err)
			}
		}
	}
	disk, trace := newDisk(t), &vfs.Trace{}
	must(t, write(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		for seed := int64(0); seed < 30; seed++ {
			check(disk.CrashClone(50, seed), op.String())
		}
		return trace.Before(op)
	}}))
	size := len(stream(t))
	want := fmt.Sprintf(`create tmp.snapshot.5
write tmp.snapshot.5 %d
sync tmp.snapshot.5
rename tmp.snapshot.5 -> snapshot.5
syncdir version-2
`, size)
	if got := trace.Take(); got != want {
		t.Errorf("protocol:\n%s", got)
	}
	for fail := 1; ; fail++ {
		disk, count := newDisk(t), 0
		err := write(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if count++; count == fail {
				return vfs.ErrNoSpace
			}
			return nil
		}})
		if err == nil {
			break
		}
		if !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("operation %d: %v", fail, err)
		}
		check(disk, err.Error())
		names, _ := disk.List(dir)
		for _, name := range names {
			if IsTemp(name) {
				t.Errorf("operation %d left %s", fail, name)
			}
		}
	}
}

func TestNamesOfOtherFilesAreIgnored(t *testing.T) {
	for _, name := range []string{"snapshot.", "snapshot.x", "snapshot.1.tmp", "snapshot.1.", "snapshot.ffffffffffffffff",
		"tmp.snapshot.1", "log.1", "snapshot.1.gz.1", "snapshot"} {
		if file, ok := ParseName(name); ok {
			t.Errorf("%s is %v", name, file)
		}
	}
	file, ok := ParseName("snapshot.100000002.snappy")
	if !ok || file.Zxid != 0x100000002 || file.Compression != Snappy {
		t.Errorf("%v %v", file, ok)
	}
}

// bareStream is the stream that servers send to each other.
func bareStream(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, fill(NewStreamEncoder(&b)))
	return b.Bytes()
}

func TestStreamForALinkIsTheFileWithoutHeaderAndSections(t *testing.T) {
	file := stream(t)
	want := file[16 : len(file)-tailBytesMax-sealBytes]
	if got := bareStream(t); !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

func TestStreamIsReadToItsEndAndNoFurther(t *testing.T) {
	var want printer
	_, err := Load(bytes.NewReader(stream(t)), "file", Options{}, &want)
	must(t, err)
	bare := bareStream(t)
	for _, after := range []string{"", "BenWasHere"} {
		for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			var got printer
			rest := strings.NewReader(string(bare) + after)
			info, err := LoadStream(wrap(rest), "link", Options{}, &got)
			must(t, err)
			if got.String() != want.String() {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
			}
			if info.Sessions != 2 || info.ACLs != 2 || info.Nodes != 4 || info.Bytes != int64(len(bare)) {
				t.Errorf("info %+v of %d bytes", info, len(bare))
			}
			if rest.Len() != len(after) {
				t.Errorf("%d bytes are left, want %d", rest.Len(), len(after))
			}
		}
	}
}

func TestStreamThatEndsEarlyIsNotCorruption(t *testing.T) {
	bare := bareStream(t)
	for n := range bare {
		_, err := LoadStream(bytes.NewReader(bare[:n]), "link", Options{}, Discard{})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := LoadStream(strings.NewReader("\xff\xff\xff\xfe"), "link", Options{}, Discard{}); !vfs.IsCorruption(err) {
		t.Errorf("a negative count: %v", err)
	}
}

func FuzzLoadStreamNeverPanics(f *testing.F) {
	f.Add(bareStream(f))
	f.Fuzz(func(t *testing.T, p []byte) {
		info, err := LoadStream(bytes.NewReader(p), "link", Options{BufferBytesMax: 1 << 16}, Discard{})
		if err != nil && !vfs.IsCorruption(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("not marked: %v", err)
		}
		if err == nil && info.Bytes > int64(len(p)) {
			t.Fatalf("%d bytes of %d", info.Bytes, len(p))
		}
	})
}

func FuzzLoadNeverPanics(f *testing.F) {
	f.Add(byte(0), stream(f))
	f.Add(byte(1), []byte{0x1f, 0x8b})
	f.Add(byte(2), []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, kind byte, p []byte) {
		c := []Compression{Plain, Gzip, Snappy}[kind%3]
		disk := newDisk(t)
		w, err := disk.Create(dir + "/snapshot.1")
		must(t, err)
		_, err = w.Write(p)
		must(t, err)
		_, err = Verify(disk, dir, File{Name: "snapshot.1", Compression: c}, Options{BufferBytesMax: 1 << 16})
		if err != nil && !vfs.IsCorruption(err) {
			t.Fatalf("not marked: %v", err)
		}
	})
}

// nodes100 is a stream of so many znodes of 100 bytes.
func nodes100(b testing.TB, count int) []byte {
	b.Helper()
	var stream bytes.Buffer
	e := NewEncoder(&stream)
	must(b, e.Begin(0, 0))
	data := make([]byte, 100)
	for i := range count {
		must(b, e.Node(fmt.Sprintf("/bench/n%08d", i), data, -1, &zk.StatPersisted{Czxid: zk.Zxid(i)}))
	}
	must(b, e.End(0, zk.Digest{}, 1))
	return stream.Bytes()
}

func BenchmarkLoad(b *testing.B) {
	const count = 100_000
	p := nodes100(b, count)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		if _, err := Load(bytes.NewReader(p), "bench", Options{}, Discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
}

func BenchmarkLoadStream(b *testing.B) {
	const count = 100_000
	file := nodes100(b, count)
	p := file[16 : len(file)-tailBytesMax-sealBytes]
	r := bytes.NewReader(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		r.Reset(p)
		if _, err := LoadStream(r, "bench", Options{}, Discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
}

func BenchmarkEncode(b *testing.B) {
	data, stat := make([]byte, 100), zk.StatPersisted{}
	e := NewEncoder(io.Discard)
	must(b, e.Begin(0, 0))
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Node("/bench/n00000000", data, -1, &stat); err != nil {
			b.Fatal(err)
		}
	}
}
