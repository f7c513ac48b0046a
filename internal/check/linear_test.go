package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// operations reads lines of the form CALL-RETURN OP CODE [v=asked] [version=found] [data=], all for
// one key. A return of ? never came.
func operations(text string) []Operation {
	var all []Operation
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fields := strings.Fields(line)
		call, end, _ := strings.Cut(fields[0], "-")
		o := options(fields)
		op := Operation{Client: i, Key: "/k", Call: integer(call), Return: Never, Version: -1, Data: Hash([]byte(o["data"]))}
		if end != "?" {
			op.Return = integer(end)
		}
		op.Op = map[string]zk.Op{"create": zk.OpCreate, "set": zk.OpSetData, "delete": zk.OpDelete, "get": zk.OpGetData, "exists": zk.OpExists}[fields[1]]
		op.Code = codeOf(fields[2])
		if v, given := o["v"]; given {
			op.Version = int32(integer(v))
		}
		if v, given := o["version"]; given {
			op.Found = int32(integer(v))
		}
		all = append(all, op)
	}
	return all
}

func TestLinearizable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		holds      bool
	}{
		{"in turn", "1-2 create ok data=a\n3-4 set ok version=1 data=b\n5-6 get ok version=1 data=b\n7-8 delete ok\n9-10 get nonode", true},
		{"at once", "1-9 create ok data=a\n1-9 get nonode\n1-9 get ok data=a", true},
		{"no answer, and it happened", "1-2 create ok data=a\n3-? set loss data=b\n8-9 get ok version=1 data=b", true},
		{"no answer, and it did not happen", "1-2 create ok data=a\n3-? set loss data=b\n8-9 get ok data=a", true},
		{"no answer, and it happened late", "1-2 create ok data=a\n3-? set loss data=b\n4-5 get ok data=a\n8-9 get ok version=1 data=b", true},
		{"a race", "1-2 create ok data=a\n3-9 set ok v=0 version=1 data=b\n3-9 set refused v=0 data=c\n10-11 get ok version=1 data=b", true},
		{"there, and gone", "1-2 create ok data=a\n3-4 exists ok\n5-9 delete ok\n6-7 exists nonode\n10-11 exists nonode", true},
		{"gone too early", "1-2 create ok data=a\n3-4 exists nonode\n5-9 delete ok", false},
		{"there too long", "1-2 create ok data=a\n3-4 delete ok\n5-9 exists ok", false},
		{"a stale read", "1-2 create ok data=a\n3-4 set ok version=1 data=b\n5-6 get ok data=a", false},
		{"a read from the future", "1-2 create ok data=a\n3-4 get ok version=1 data=b\n5-6 set ok version=1 data=b", false},
		{"a lost write", "1-2 create ok data=a\n3-4 get nonode", false},
		{"created twice", "1-2 create ok data=a\n3-4 create ok data=b", false},
		{"both win the race", "1-2 create ok data=a\n3-9 set ok v=0 version=1 data=b\n3-9 set ok v=0 version=1 data=c", false},
		{"both lose the race", "1-2 create ok data=a\n3-9 set refused v=0 data=b\n3-9 set refused v=0 data=c\n10-11 get ok data=a", false},
		{"undone", "1-2 create ok data=a\n3-? set loss data=b\n4-5 get ok version=1 data=b\n8-9 get ok data=a", false},
		{"back from the dead", "1-2 create ok data=a\n3-4 delete ok\n5-6 get ok data=a", false},
		{"deleted twice", "1-2 create ok data=a\n3-9 delete ok\n3-9 delete ok", false},
		{"a version told wrong", "1-2 create ok data=a\n3-4 set ok version=2 data=b", false},
		{"never written", "1-2 create ok data=a\n3-4 get ok data=x", false},
		{"refused without a reason", "1-2 create exists data=a", false},
		{"refused, and there", "1-2 create ok data=a\n3-4 delete nonode\n5-6 get ok data=a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Linearizable(operations(c.text)); (err == nil) != c.holds {
				t.Errorf("it holds: %v, but: %v", c.holds, err)
			}
		})
	}
}

func TestKeysAreLinearizableByThemselves(t *testing.T) {
	all := operations("1-2 create ok data=a\n3-4 get ok data=a")
	all[1].Key = "/other"
	if err := Linearizable(all); err == nil || !strings.Contains(err.Error(), "/other") {
		t.Errorf("a read of another key: %v", err)
	}
}

// In a storm, many operations have no answer, and may have happened at any later time. The search
// for an order of them must end, whether or not there is one.
func TestManyOperationsWithoutAnAnswerAreDecided(t *testing.T) {
	text := "1-2 create ok data=a\n"
	at := 3
	for i := range 12 {
		text += fmt.Sprintf("%d-? set loss data=lost%d\n", at, i)
		text += fmt.Sprintf("%d-%d set ok version=%d data=told%d\n", at+1, at+2, i/2+i+1, i)
		if i%2 == 1 { // every second one has happened
			text += fmt.Sprintf("%d-%d get ok version=%d data=told%d\n", at+3, at+4, i/2+i+1, i)
		}
		at += 5
	}
	for last, holds := range map[string]bool{
		fmt.Sprintf("%d-%d get ok version=18 data=lost3", at, at+1): true,
		fmt.Sprintf("%d-%d get ok version=90 data=lost3", at, at+1): false,
	} {
		if err := Linearizable(operations(text + last)); (err == nil) != holds {
			t.Errorf("%s: it holds: %v, but: %v", last, holds, err)
		}
	}
}
