package objects

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election"
)

func TestEveryElectionHasAKeyOfItsOwn(t *testing.T) {
	const prefix = "elections"
	long := strings.Repeat("ü", election.NameBytesMax/2)
	seen := map[string]string{}
	for _, name := range []string{"a", "a/b", "a%2Fb", "a%2fb", "ä", ".a", "a.json", "a b", "a+b", "a+/b", ".", "..",
		"a.probe", "conditions.probe", "\U0010ffff", long, long[2:], strings.Repeat("x", PartBytesMax), strings.Repeat("x", 100) + ".json"} {
		key := Key(prefix, name)
		if other, taken := seen[key]; taken {
			t.Errorf("%q and %q share %s", name, other, key)
		}
		seen[key] = name
		if back, ours := Name(prefix, key); !ours || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, ours)
		}
		for part := range strings.SplitSeq(key, "/") {
			if len(part) > 255 || part == "." || part == ".." {
				t.Errorf("%q: part %q", name, part)
			}
		}
		if len(key) > 1024-PartBytesMax {
			t.Errorf("%q: a key of %d bytes leaves no place for a prefix", name, len(key))
		}
	}
	for _, key := range []string{"elections/", "elections/a", "elections/a%2fb.json", "x/a.json", "elections/conditions.probe", "elections/%zz.json"} {
		if name, ours := Name(prefix, key); ours {
			t.Errorf("%s passes for the election %q", key, name)
		}
	}
}

// FuzzName: a key belongs to one election at most.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"elections/a.json", "elections/a%2Fb.json", "elections/a+/b.json", "elections/%.json", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		const prefix = "elections"
		if name, ours := Name(prefix, key); ours && Key(prefix, name) != key {
			t.Errorf("%q is of %q, whose key is %q", key, name, Key(prefix, name))
		}
		if name, ours := Name(prefix, Key(prefix, key)); !ours || name != key {
			t.Errorf("%q comes back as %q, %v", key, name, ours)
		}
	})
}

func TestProbeIsRepeatedUntilItHasPassed(t *testing.T) {
	var p Probe
	failed := errors.New("failed")
	answers := []error{failed, failed, nil}
	tried := 0
	for range 5 {
		err := p.Once(t.Context(), func(context.Context) error { tried++; return answers[tried-1] })
		if !errors.Is(err, answers[min(tried, 3)-1]) {
			t.Errorf("try %d: %v", tried, err)
		}
	}
	if tried != 3 {
		t.Errorf("%d probes", tried)
	}
}
