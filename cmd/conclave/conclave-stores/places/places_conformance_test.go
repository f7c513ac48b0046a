//go:build linux && conformance

package places

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/test/stores"
)

func TestPlaceOnVersityGateway(t *testing.T) { onStore(t, "s3", S3) }

func TestPlaceOnMinIO(t *testing.T) { onStore(t, "minio", S3) }

func TestPlaceOnAzurite(t *testing.T) { onStore(t, "azureblob", Azure) }

// onStore creates, reads, lists and removes files in a real store.
func onStore(t *testing.T, name string, open func(context.Context, string) (backup.Place, error)) {
	server := stores.Start(t, name)
	for variable, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": server.Note["access"], "AWS_SECRET_ACCESS_KEY": server.Note["secret"], "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AZURE_STORAGE_KEY": server.Note["key"],
	} {
		t.Setenv(variable, value)
	}
	at := func(prefix string) backup.Place {
		t.Helper()
		url, query, _ := strings.Cut(server.URL, "?")
		place, err := open(t.Context(), url+prefix+"?"+query)
		if err != nil {
			t.Fatal(err)
		}
		return place
	}
	place := at("/zk/one")
	long := make([]byte, 23<<20) // several parts of an upload
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(long)
	files := map[string][]byte{"empty": nil, "log-1.gz": []byte("a log"), "snapshot-2.gz.age": long}
	for name, content := range files {
		err := place.Put(t.Context(), name, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(content))
			return err
		})
		if err != nil {
			t.Fatalf("put %s: %v", name, err)
		}
	}
	failed := errors.New("the source has failed")
	for _, after := range []int{0, 100, len(long)} {
		err := place.Put(t.Context(), "broken", func(w io.Writer) error {
			_, _ = w.Write(long[:after])
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("a source that fails after %d bytes: %v", after, err)
		}
	}
	other := at("/zk/one/below") // below the place, and outside it
	for _, p := range []backup.Place{other, at("/zk/oneself")} {
		if err := p.Put(t.Context(), "stranger", func(w io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	names, err := place.List(t.Context())
	slices.Sort(names)
	if want := []string{"empty", "log-1.gz", "snapshot-2.gz.age"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("list: %q, %v", names, err)
	}
	for name, content := range files {
		r, err := place.Open(t.Context(), name)
		if err != nil {
			t.Fatalf("open %s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(content), err)
		}
		r.Close()
	}
	if _, err := place.Open(t.Context(), "broken"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was not whole: %v", err)
	}
	if err := place.Remove(t.Context(), "log-1.gz"); err != nil {
		t.Error(err)
	}
	if names, err := place.List(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("after a removal: %q, %v", names, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := place.Put(ended, "late", func(w io.Writer) error { _, err := w.Write(long); return err }); err == nil {
		t.Error("a put whose context has ended succeeds")
	}
	server.Stop()
	soon, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if _, err := place.List(soon); err == nil {
		t.Error("a store that is not there lists something")
	}
}
