//go:build linux

package overlap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/clock"
)

func TestSpansAreReadBackUpToTheLastOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans")
	for _, id := range []string{"a", "b"} {
		left := 3
		before := clock.Now()
		if err := sight(file, id, 1, func() bool { left--; return left >= 0 }); err != nil {
			t.Fatal(err)
		}
		spans, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		overlaps, _ := Judge(spans)
		last := spans[len(spans)-1]
		if len(overlaps) != 0 || last.ID != id || last.From < before || last.To <= last.From || last.To > clock.Now() {
			t.Errorf("spans %+v, overlaps %q", spans, overlaps)
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, errWrite := f.WriteString("c 17")
	if err := errors.Join(errWrite, f.Close()); err != nil {
		t.Fatal(err)
	}
	if spans, err := Read(file); err != nil || len(spans) != 2 {
		t.Errorf("with half a line: %+v, %v", spans, err)
	}
}

func TestOverlapsAreFound(t *testing.T) {
	overlaps, handovers := Judge([]Span{{"c", 35, 50}, {"a", 10, 40}, {"b", 20, 30}, {"c", 60, 70}})
	if text := strings.Join(overlaps, "; "); len(overlaps) != 2 ||
		!strings.Contains(text, "b led beside a") || !strings.Contains(text, "c led beside a") {
		t.Errorf("overlaps %q", overlaps)
	}
	if handovers != 2 {
		t.Errorf("%d hand-overs", handovers)
	}
	if overlaps, _ := Judge([]Span{{"a", 0, 1e9}, {"b", 3e9, 4e9}}); len(overlaps) > 0 {
		t.Errorf("overlaps of one long after the other: %q", overlaps)
	}
}
