package kubernetes

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/conclave-project/conclave/election"
)

func TestNamesThatKubernetesTakesAreKept(t *testing.T) {
	tests := map[string]string{
		"demo":             "demo",
		"my.app-leader.v2": "my.app-leader.v2",
		"billing/nightly":  "x--billing-2fnightly",
		"Demo":             "x---44emo",
		"a-b/c.d":          "x--a-2db-2fc-2ed",
		"ends-":            "x--ends-2d",
		"ä":                "x---c3-a4",
		"x--demo":          "x--x-2d-2ddemo",
		"x256--00":         "x--x256-2d-2d00",
	}
	for election, want := range tests {
		if got := object(election); got != want {
			t.Errorf("object(%q) = %q, want %q", election, got, want)
		}
	}
}

func TestLongNamesAreHashed(t *testing.T) {
	long := strings.Repeat("Ä", election.NameBytesMax/2)
	if got := object(long); !strings.HasPrefix(got, hashedMark) {
		t.Errorf("object(%q) = %q", long, got)
	}
	if _, ok := nameOf(object(long)); ok {
		t.Error("a hash gave a name")
	}
	if object(long) == object(long[2:]) {
		t.Error("two names have one object")
	}
}

func TestObjectsThatAreNotOursHaveNoName(t *testing.T) {
	for _, object := range []string{"x--a-", "x--a-2", "x--a-zz", "x256--00"} {
		if name, ok := nameOf(object); ok {
			t.Errorf("nameOf(%q) = %q", object, name)
		}
	}
}

func FuzzNamesComeBack(f *testing.F) {
	for _, name := range []string{"demo", "billing/Nightly", "x--a", "x256--ab", "a..b", "-", "ä b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if election.ValidateName(name) != nil {
			return // no election has such a name
		}
		o := object(name)
		if wrong := validation.IsDNS1123Subdomain(o); len(wrong) > 0 {
			t.Fatalf("object(%q) = %q: %v", name, o, wrong)
		}
		if back, ok := nameOf(o); ok && back != name || !ok && !strings.HasPrefix(o, hashedMark) {
			t.Fatalf("object(%q) = %q, which is %q", name, o, back)
		}
	})
}
