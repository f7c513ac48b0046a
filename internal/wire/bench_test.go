package wire

import (
	"maps"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// hotRequests are the requests that clients send most often.
func hotRequests() map[string]*zk.Request {
	const path = "/app/config/database"
	data := make([]byte, 100)
	return map[string]*zk.Request{
		"get":    {Op: zk.OpGetData, Xid: 1, Path: path},
		"exists": {Op: zk.OpExists, Xid: 1, Path: path, Watch: true},
		"set":    {Op: zk.OpSetData, Xid: 1, Path: path, Data: data, Version: -1},
		"create": {Op: zk.OpCreate, Xid: 1, Path: path, Data: data, ACL: zk.OpenACL()},
	}
}

func hotReplies() map[string]*zk.Result {
	data := make([]byte, 100)
	return map[string]*zk.Result{
		"get":    {Op: zk.OpGetData, Data: data},
		"set":    {Op: zk.OpSetData},
		"create": {Op: zk.OpCreate, Path: "/app/config/database"},
	}
}

// A server decodes a request, even a create with the open ACL, and appends its reply to a buffer
// without allocating.
func TestHotRequestsAndRepliesAllocateNothing(t *testing.T) {
	var into zk.Request
	for name, r := range hotRequests() {
		payload := AppendRequest(nil, r)[PrefixBytes:]
		if got := testing.AllocsPerRun(100, func() { _ = DecodeRequest(payload, FrameBytesMax, &into) }); got != 0 {
			t.Errorf("%s is decoded with %v allocations", name, got)
		}
		buffer := make([]byte, 0, 1<<10)
		if got := testing.AllocsPerRun(100, func() { AppendRequest(buffer, r) }); got != 0 {
			t.Errorf("%s is encoded with %v allocations", name, got)
		}
	}
	for name, r := range hotReplies() {
		buffer := make([]byte, 0, 1<<10)
		if got := testing.AllocsPerRun(100, func() { AppendReply(buffer, ReplyHeader{Xid: 1, Zxid: 1}, r) }); got != 0 {
			t.Errorf("the reply to %s is encoded with %v allocations", name, got)
		}
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	requests := hotRequests()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		payload := AppendRequest(nil, requests[name])[PrefixBytes:]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var into zk.Request
			for b.Loop() {
				if err := DecodeRequest(payload, FrameBytesMax, &into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendReply(b *testing.B) {
	replies := hotReplies()
	for _, name := range slices.Sorted(maps.Keys(replies)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buffer := make([]byte, 0, 1<<10)
			for b.Loop() {
				AppendReply(buffer, ReplyHeader{Xid: 1, Zxid: 1}, replies[name])
			}
		})
	}
}
