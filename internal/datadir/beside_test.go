package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// replayed keeps what a log yields, and fails at one record.
type replayed struct {
	snap.Discard
	all    []string
	failAt int
	told   []zk.Zxid // announced, and not replayed yet
	knew   int       // how many of the records were announced
	gap    bool
}

var errReplay = errors.New("this record is refused")

func (r *replayed) Ahead(next []txnlog.Record) int {
	next = next[:min(len(next), 1+len(r.all)%40)]
	r.gap = r.gap || len(r.told) > 0 // more were announced before these were replayed
	for i := range next {
		if _, _, _, err := txn.Decode(next[i].Payload); err == nil {
			r.told = append(r.told, next[i].Zxid)
		}
	}
	return len(next)
}

func (r *replayed) Replay(zxid zk.Zxid, payload []byte) error {
	if len(r.told) > 0 && r.told[0] == zxid {
		r.knew++
		r.told = r.told[1:]
	}
	if len(r.all)+1 == r.failAt {
		return errReplay
	}
	_, t, _, err := txn.Decode(payload)
	r.all = append(r.all, fmt.Sprintf("%s %d %x", zxid, len(t.Data), bytes.Count(t.Data, []byte{byte(zxid)})))
	return err
}

// A log that is read with two goroutines yields the same as with one: records of all lengths,
// an error of the target, a damaged record, and a torn end.
func TestReplayBesideIsTheSame(t *testing.T) {
	const records = 3000
	recover := func(disk *vfs.Mem, failAt int, beside func(func())) (string, error) {
		s, err := Open(disk, Options{DataDir: "data", Log: txnlog.Options{PreallocBytes: 4096}, Beside: beside, TrustEmpty: true})
		must(t, err)
		defer s.Close()
		var target *replayed
		r, err := s.Recover(func() Target { target = &replayed{failAt: failAt}; return target })
		if beside != nil && (target.knew < len(target.all) || target.gap) {
			t.Errorf("of %d records it was told of %d before", len(target.all), target.knew)
		}
		text := strings.Join(target.all, "\n")
		if err == nil {
			text += fmt.Sprintf("\nlast %s, %d records of %d bytes, torn %+v", r.Last, r.Records, r.Bytes, r.Torn)
		}
		return text, err
	}
	for _, test := range []struct {
		name   string
		failAt int
		damage int64 // a byte of the second segment, 0 for none
		torn   bool
		ok     bool
	}{{name: "whole", ok: true}, {name: "refused", failAt: 1800}, {name: "first refused", failAt: 1}, {name: "last refused", failAt: records},
		{name: "damaged", damage: 500_000}, {name: "torn", torn: true, ok: true}} {
		t.Run(test.name, func(t *testing.T) {
			write := func() *vfs.Mem {
				disk := vfs.NewMem()
				must(t, disk.MkdirAll("data/version-2"))
				log, err := txnlog.Open(disk, "data/version-2", 0, txnlog.Options{PreallocBytes: 4096})
				must(t, err)
				for i := zk.Zxid(1); i <= records; i++ {
					size := int(i) * 41 % 700
					if i%500 == 7 {
						size = recordBytes - 20 + int(i%3)*20
					}
					x := zk.Txn{Op: zk.OpSetData, Path: "/a", Data: bytes.Repeat([]byte{byte(i)}, size)}
					must(t, log.Append(i, txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: i, Op: x.Op}, &x, zk.Digest{})))
					if i == 1000 {
						must(t, log.Sync())
						log.Roll()
					}
				}
				must(t, log.Sync())
				if test.torn {
					x := zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 300)}
					must(t, log.Append(records+1, txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: records + 1, Op: x.Op}, &x, zk.Digest{})))
					must(t, log.Close())
					f, err := disk.OpenReadWrite("data/version-2/log.3e9")
					must(t, err)
					size, err := f.Size()
					must(t, err)
					must(t, f.Truncate(size-200))
				} else {
					must(t, log.Close())
				}
				if test.damage > 0 {
					damage(t, disk, "data/version-2/log.3e9", test.damage)
				}
				return disk
			}
			want, errWant := recover(write(), test.failAt, nil)
			got, err := recover(write(), test.failAt, func(f func()) { go f() })
			if got != want || (err == nil) != test.ok || fmt.Sprint(err) != fmt.Sprint(errWant) {
				t.Errorf("%d bytes told, on one goroutine %d; %v, on one goroutine %v", len(got), len(want), err, errWant)
			}
			if test.failAt > 0 && !errors.Is(err, errReplay) || test.torn && !strings.Contains(got, "torn &") {
				t.Errorf("%v, %s", err, got[max(0, len(got)-200):])
			}
		})
	}
}

// counts is a Target that keeps nothing.
type counts struct {
	snap.Discard
	n int
}

func (c *counts) Replay(zk.Zxid, []byte) error { c.n++; return nil }

// The buffers that are passed between the goroutines are reused: a replay takes memory for some
// parts of the log, not for all of it.
func TestRecordsAreHandedOverInTheSameParts(t *testing.T) {
	const records = 30_000
	disk := vfs.NewMem()
	must(t, disk.MkdirAll("data/version-2"))
	log, err := txnlog.Open(disk, "data/version-2", 0, txnlog.Options{PreallocBytes: 1 << 20})
	must(t, err)
	for i := zk.Zxid(1); i <= records; i++ {
		x := zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 300)}
		must(t, log.Append(i, txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: i, Op: x.Op}, &x, zk.Digest{})))
	}
	must(t, log.Sync())
	must(t, log.Close())
	allocated := func(beside func(func())) uint64 {
		s, err := Open(disk, Options{DataDir: "data", Log: txnlog.Options{PreallocBytes: 1 << 20}, Beside: beside, TrustEmpty: true})
		must(t, err)
		defer s.Close()
		reader, err := s.ReadLog(0)
		must(t, err)
		defer reader.Close()
		var before, after runtime.MemStats
		target := &counts{}
		runtime.ReadMemStats(&before)
		r := &Recovered{Target: target}
		if beside == nil {
			must(t, replayAll(reader, r))
		} else {
			must(t, replayBeside(beside, reader, r))
		}
		runtime.ReadMemStats(&after)
		if target.n != records || r.Records != records {
			t.Fatalf("%d records", target.n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	alone, beside := allocated(nil), allocated(func(f func()) { go f() })
	const parts = 4 << 20 // four parts, and the smaller buffers that they have grown from
	if beside > alone+parts {
		t.Errorf("%d KiB, and %d KiB on one goroutine", beside>>10, alone>>10)
	}
}
