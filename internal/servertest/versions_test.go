package servertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// unpack returns a disk with a recorded directory.
func unpack(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	packed, err := os.ReadFile(name)
	must(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	disk := vfs.NewMem()
	must(t, disk.MkdirAll("data/version-2"))
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return disk
		}
		must(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(files)
		must(t, err)
		must(t, vfs.ReplaceFile(disk, "data/"+header.Name, "data/version-2/t", content))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The directories in testdata come from one server of three, all killed at once, at the
// commits in their names. Each later version must start on them, with all their data and
// without a warning: the digests that those servers logged are compared, too.
func TestDirectoriesOfEarlierVersionsAreServed(t *testing.T) {
	recorded, err := filepath.Glob("testdata/*.tar.gz")
	if must(t, err); len(recorded) == 0 {
		t.Fatal("nothing is recorded")
	}
	for _, name := range recorded {
		t.Run(filepath.Base(name), func(t *testing.T) {
			disk, ctx := unpack(t, name), awaittest.Within(t)
			var log bytes.Buffer
			for start := range 2 {
				addr, stop := StartUntil(t, func(c *server.Config) {
					c.FS, c.ExtendedTypes = disk, true
					c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				})
				c := connect(t, ctx, addr, client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte("app:secret")}}})
				names, stat, err := c.Children(ctx, "/app")
				must(t, err)
				slices.Sort(names)
				if want := []string{"a", "b", "box", "c", "kept", "live", "n-0000000001", "n-0000000002", "secret", "ttl"}; start == 0 && !slices.Equal(names, want) {
					t.Errorf("there are %q, stat %+v", names, stat)
				}
				for path, data := range map[string]string{"/app": "first", "/app/kept": "kept2", "/app/n-0000000002": "two", "/app/secret": "s", "/app/a": "a2"} {
					if got, _, err := c.Get(ctx, path); err != nil || string(got) != data {
						t.Errorf("%s is %q, %v", path, got, err)
					}
				}
				for path, kind := range map[string]func(zk.Stat) bool{
					"/app/live": func(s zk.Stat) bool { return s.EphemeralOwner > 0 },
					"/app/kept": func(s zk.Stat) bool { return s.Version == 1 && s.Czxid.Epoch() == 1 },
				} {
					if s, found, err := c.Exists(ctx, path); err != nil || !found || !kind(s) {
						t.Errorf("%s: %+v, %v", path, s, err)
					}
				}
				if _, _, err := c.Get(ctx, "/zookeeper/quota/app/zookeeper_limits"); err != nil {
					t.Error(err)
				}
				if start == 0 {
					_, _, err = c.Create(ctx, "/app/since", nil, client.CreateOptions{})
				} else {
					_, _, err = c.Get(ctx, "/app/since")
				}
				must(t, err)
				stop()
			}
			if log.Len() > 0 {
				t.Errorf("a start has something to warn of:\n%s", log.String())
			}
		})
	}
}
