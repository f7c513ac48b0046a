package zookeeper

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

func TestCandidatesAreSortedByNumberAcrossTheWrap(t *testing.T) {
	id := prefix(election.Claim{Nonce: "0123456789abcdef0123456789abcdef"})
	got := candidates([]string{
		id + "-2147483648", id + "2147483646", id + "-2147483647", id + "2147483647",
		"config", id, id + "12", "_c_-lock-0000000001", "0123456789abcdef__lock__2147483645",
	})
	want := []string{"0123456789abcdef__lock__2147483645", id + "2147483646", id + "2147483647", id + "-2147483648", id + "-2147483647"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestCandidatesOfAllNegativeNumbersAreSeen: when a number has fewer than ten
// digits, its sign is one of the ten characters.
func TestCandidatesOfAllNegativeNumbersAreSeen(t *testing.T) {
	id := prefix(election.Claim{Nonce: "0123456789abcdef0123456789abcdef"})
	want := []string{id + "-1000000000", id + "-999999999", id + "-000000001", id + "0000000000"}
	if got := candidates([]string{want[2], want[1], want[3], want[0]}); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestOnlyOwnCandidatesHaveAPriority: other clients' candidates are never taken
// out of the queue.
func TestOnlyOwnCandidatesHaveAPriority(t *testing.T) {
	own := prefix(election.Claim{Nonce: "0123456789abcdef0123456789abcdef", Priority: 7}) + "0000000001"
	if p, ours := priority(own); !ours || p != 7 {
		t.Errorf("%s: %d, %v", own, p, ours)
	}
	for _, name := range []string{"_c_01234567-89ab-cdef-0123-456789abcdef-latch-0000000001", "0123456789abcdef__lock__0000000001"} {
		if _, ours := priority(name); ours {
			t.Errorf("%s passes for ours", name)
		}
	}
}

func TestEveryElectionNameIsAZnodeOfItsOwn(t *testing.T) {
	s, err := newStore("localhost", Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, name := range []string{"a", "a/b", "a%2Fb", "a%2fb", "ä", ".a", "a.b", "a b", "\U0010ffff"} {
		path := s.parent(name)
		if err := zk.ValidatePath(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if other, taken := seen[path]; taken {
			t.Errorf("%q and %q share %s", name, other, path)
		}
		seen[path] = name
	}
}

func TestWrongRootsAreRefused(t *testing.T) {
	for _, root := range []string{"/", "a", "/a/", "/a//b"} {
		if _, err := New("localhost", Options{Root: root}); err == nil {
			t.Errorf("root %q was taken", root)
		}
	}
}
