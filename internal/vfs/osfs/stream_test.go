package osfs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// Everything written to a stream, in pieces of any length, is in the file after Sync, also if
// there was an earlier Sync, and wherever a direct write ends.
func TestStreamsHaveWhatWasWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 16))
	for i, length := range []int{0, 1, 4095, 4096, 256 << 10, 256<<10 + 1, 1 << 20, 5<<20 + 77} {
		name := filepath.Join(t.TempDir(), "stream")
		must(t, os.WriteFile(name, []byte("what was there before"), 0o600))
		s, err := vfs.CreateStream(New(), name)
		must(t, err)
		want := make([]byte, length)
		for j := range want {
			want[j] = byte(random.Uint32())
		}
		syncAt := length
		if i%2 == 1 {
			syncAt = length / 2
		}
		for at := 0; at < length; {
			n := min(1+random.IntN(300_000), length-at)
			if at < syncAt && at+n >= syncAt {
				n = syncAt - at
			}
			wrote, err := s.Write(want[at : at+n])
			if must(t, err); wrote != n {
				t.Fatalf("%d of %d bytes were written", wrote, n)
			}
			if at += n; at == syncAt {
				must(t, s.Sync())
			}
		}
		must(t, s.Sync())
		must(t, s.Close())
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d are in the file, %v", length, len(got), err)
		}
	}
}

// A reader that prefetches reads the same bytes, to the end of the file.
func TestReadingAheadReadsTheSame(t *testing.T) {
	name := filepath.Join(t.TempDir(), "long")
	want := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16+1)
	must(t, os.WriteFile(name, want, 0o600))
	f, err := New().Open(name)
	must(t, err)
	defer f.Close()
	if _, ok := f.(vfs.Prefetcher); !ok {
		t.Log("nothing goes ahead on this system")
	}
	var got bytes.Buffer
	if n, err := got.ReadFrom(vfs.Ahead(f)); err != nil || n != int64(len(want)) || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of %d, %v", n, len(want), err)
	}
}
