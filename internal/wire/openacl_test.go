package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// All creates with the open ACL share one list. The decoder may use it only where decoding entry
// by entry gives the same list, whatever the bytes are and however many entries begin like it.
func TestOpenListIsToldFromOthers(t *testing.T) {
	two := append(zk.OpenACL(), zk.ReadACL()...)
	var frames [][]byte
	for _, list := range [][]zk.ACL{zk.OpenACL(), zk.ReadACL(), two, append(zk.OpenACL(), zk.OpenACL()...), {}, nil} {
		frames = append(frames, AppendRequest(nil, &zk.Request{Xid: 1, Op: zk.OpCreate, Path: "/a", Data: []byte("x"), ACL: list})[PrefixBytes:])
	}
	decoded := func(b []byte, open []byte) (zk.Request, error) {
		defer func(keep []byte) { openBytes = keep }(openBytes)
		openBytes = open
		var r zk.Request
		err := DecodeRequest(b, FrameBytesMax, &r)
		return r, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60_000 {
		b := append([]byte(nil), frames[i%len(frames)]...)
		for range random.IntN(3) {
			b[random.IntN(len(b))] = byte(random.IntN(256) >> random.IntN(8))
		}
		if random.IntN(4) == 0 {
			b = b[:random.IntN(len(b)+1)]
		}
		got, err := decoded(b, openBytes)
		want, errWant := decoded(b, []byte("no list is this"))
		if fmt.Sprint(err) != fmt.Sprint(errWant) || !reflect.DeepEqual(got, want) {
			t.Fatalf("%x: %+v %v, not %+v %v", b, got, err, want, errWant)
		}
	}
	if !reflect.DeepEqual(openACL, zk.OpenACL()) {
		t.Errorf("the list is %v now", openACL)
	}
}
