package txn

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

var (
	hotHeader = zk.TxnHeader{Session: 0x100000000000001, Zxid: 0x100000007, Time: 1_700_000_000_000, Op: zk.OpSetData}
	hotSet    = zk.Txn{Op: zk.OpSetData, Path: "/app/config/database", Data: make([]byte, 100), Version: 3}
	hotDigest = zk.Digest{Version: 2, Value: 1}
)

// Every server writes and reads each transaction, so that must not allocate.
func TestASetIsWrittenAndReadWithoutAllocating(t *testing.T) {
	buffer := make([]byte, 0, 1<<10)
	if got := testing.AllocsPerRun(100, func() { Append(buffer, &hotHeader, &hotSet, hotDigest) }); got != 0 {
		t.Errorf("%v allocations to write it", got)
	}
	payload := Append(nil, &hotHeader, &hotSet, hotDigest)
	if got := testing.AllocsPerRun(100, func() { _, _, _, _ = Decode(payload) }); got != 0 {
		t.Errorf("%v allocations to read it", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	buffer := make([]byte, 0, 1<<10)
	for b.Loop() {
		Append(buffer, &hotHeader, &hotSet, hotDigest)
	}
}

func BenchmarkDecode(b *testing.B) {
	payload := Append(nil, &hotHeader, &hotSet, hotDigest)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}
