package command

import (
	"encoding/json"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// A list from which watches are missing must not be taken for a complete one.
func TestWatchesThatAServerLeavesOutAreCounted(t *testing.T) {
	seen := map[string]zk.SessionID{}
	put := func(path string, id zk.SessionID) { seen[path] = id }
	if left := watchesOf("/a\n\t0x12\n/left out: 5\n\t0x13\nleft out: 77 watches\n\n", put); left != 77 || seen["/a"] != 0x12 || seen["/left out: 5"] != 0x13 || len(seen) != 2 {
		t.Errorf("%d left out, %v", left, seen)
	}
	if left := watchesOf("/a\n\t0x12\n\n", put); left != 0 {
		t.Errorf("%d left out of a whole list", left)
	}
	if left := watchesOf("/a\n\t0x12\nleft out: 9\n\t0x14\n\n", put); left != 0 || seen["left out: 9"] != 0x14 {
		t.Errorf("%d left out by the name of what somebody watches, %v", left, seen)
	}
	for text, want := range map[string]int{
		`{"path_to_session_ids":{"/b":[3]}}`: 0, `{"path_to_session_ids":{"/b":[3]},"left_out":9}`: 9,
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		if left, err := watchFields(fields, put); err != nil || left != want || seen["/b"] != 3 {
			t.Errorf("%s: %d left out, %v, %v", text, left, err, seen)
		}
	}
}
