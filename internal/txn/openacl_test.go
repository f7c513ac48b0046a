package txn

import (
	"reflect"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// All creates with the open ACL share one list, and no other list is mistaken for it.
func TestOpenListIsToldFromOthers(t *testing.T) {
	for _, list := range [][]zk.ACL{zk.OpenACL(), zk.ReadACL(), append(zk.OpenACL(), zk.ReadACL()...), append(zk.OpenACL(), zk.OpenACL()...), {}} {
		h, x := zk.TxnHeader{Zxid: 1, Op: zk.OpCreate}, zk.Txn{Op: zk.OpCreate, Path: "/a", Data: []byte("x"), ACL: list}
		_, got, _, err := Decode(Append(nil, &h, &x, zk.Digest{}))
		if err != nil || len(got.ACL) != len(list) || len(list) > 0 && !reflect.DeepEqual(got.ACL, list) {
			t.Errorf("%v is read as %v, %v", list, got.ACL, err)
		}
	}
	if !reflect.DeepEqual(openACL, zk.OpenACL()) {
		t.Errorf("the list is %v now", openACL)
	}
}
