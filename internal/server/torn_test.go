package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// likeRecords is data that looks like records of a transaction log, with a zxid above all
// others.
func likeRecords(n int) []byte {
	payload := make([]byte, 32)
	binary.BigEndian.PutUint64(payload[12:], 0x7ffffffffffffffe)
	var b []byte
	b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(append(b, payload...), 0x42)
	return bytes.Repeat(b, n/len(b))
}

// starts starts a server on a disk, and returns the last of its znodes "later", or -1.
func starts(disk vfs.FS) (last int, err error) {
	s, err := New(testConfig(disk, func(c *Config) { c.ClientAddr = "" }))
	if err != nil {
		return 0, err
	}
	defer s.close()
	for found := true; found; last++ {
		_, found = s.replica.Tree().Find(fmt.Sprintf("/later%d", last))
	}
	return last - 2, nil
}

// Data that a client has written do not keep a server from starting after a power loss (datadir
// S2).
func TestServerStartsBehindATornRecordWhateverIsInIt(t *testing.T) {
	for what, data := range map[string][]byte{"letters": bytes.Repeat([]byte("xyz"), 30_000), "records": likeRecords(90_000)} {
		disk := vfs.NewMem()
		var mu sync.Mutex
		var scenes []*vfs.Mem
		armed := false
		faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if armed && op.Kind == vfs.KindSync && isLog(op) {
				for seed := range int64(10) {
					scenes = append(scenes, disk.CrashClone(50, seed), disk.CrashClone(10, seed), disk.CrashClone(90, seed))
				}
				armed = false
			}
			return nil
		}}
		s, stop := launch(t, faulty, func(c *Config) { c.TickTime = 2 * time.Second })
		p := dial(t, s, nil)
		p.do(create("/a", "", 0))
		mu.Lock()
		armed = true
		mu.Unlock()
		p.do(zk.Request{Op: zk.OpSetData, Path: "/a", Data: data, Version: -1})
		if err := stop(); err != nil || len(scenes) == 0 {
			t.Fatal(err, len(scenes))
		}
		for at, scene := range scenes {
			if _, err := starts(scene); err != nil {
				t.Errorf("data of %s, power loss %d: %.150v", what, at, err)
			}
		}
	}
}

// A changed bit in an acknowledged record is not taken for a torn end, whether there are zeros
// next to it or not (datadir S1).
func TestServerRefusesAChangedBitBesideZeros(t *testing.T) {
	const later = 20
	for what, fill := range map[string]string{"letters": "x", "zeros": "\x00"} {
		disk := vfs.NewMem()
		s, stop := launch(t, disk, nil)
		p := dial(t, s, nil)
		p.do(create("/a", string(bytes.Repeat([]byte(fill), 3000)), 0))
		for i := range later {
			if code, _ := p.do(create(fmt.Sprintf("/later%d", i), "acknowledged", 0)); code != zk.OK {
				t.Fatal(code)
			}
		}
		killed := disk.KillClone()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for how, disk := range map[string]*vfs.Mem{"stopped": disk, "killed": killed} {
			at := longRecord(t, disk)
			if err := disk.FlipByte(at.File, at.Offset+12+60, 1); err != nil {
				t.Fatal(err)
			}
			if last, err := starts(disk); !vfs.IsCorruption(err) {
				t.Errorf("%s, data of %s: it starts (%v), and has /later%d of %d", how, what, err, last, later)
			}
		}
	}
}

// longRecord finds the record of the znode with data.
func longRecord(t *testing.T, disk vfs.FS) (at txnlog.Record) {
	t.Helper()
	r, err := txnlog.NewReader(disk, "/data/version-2", 0, txnlog.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for len(at.Payload) < 3000 {
		if at, err = r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return at
}
