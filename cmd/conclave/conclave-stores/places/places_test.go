package places

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// If the source of a file fails, its error is returned, and not the error of the upload
// that follows from it. Neither side waits for the other.
func TestUploadTellsWhatHasFailed(t *testing.T) {
	source, store := errors.New("the source"), errors.New("the store")
	many := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name  string
		write func(io.Writer) error
		take  func(io.Reader) error
		want  error
	}{
		{"all is well", func(w io.Writer) error { _, err := io.WriteString(w, many); return err },
			func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }, nil},
		{"the source fails", func(w io.Writer) error { _, _ = io.WriteString(w, many); return source },
			func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }, source},
		{"the store fails at once", func(w io.Writer) error { _, err := io.WriteString(w, many); return err },
			func(io.Reader) error { return store }, store},
		{"the store fails, and the source says something else of it", func(w io.Writer) error {
			if _, err := io.WriteString(w, many); err != nil {
				return source
			}
			return nil
		}, func(io.Reader) error { return store }, source},
		{"the store takes less than all", func(w io.Writer) error { _, err := io.WriteString(w, many); return err },
			func(r io.Reader) error { _, err := io.CopyN(io.Discard, r, 10); return err }, errUpload},
	} {
		if err := upload(c.write, c.take); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %v", c.name, err, c.want)
		}
	}
}

func TestPrefixIsThePathOfTheURL(t *testing.T) {
	for _, c := range []struct {
		url   string
		parts int
		want  string
	}{
		{"s3://b?region=r", 0, ""}, {"s3://b/", 0, ""}, {"s3://b/a/b/", 0, "a/b/"}, {"azureblob://me/box", 1, ""}, {"azureblob://me/box/a/b", 1, "a/b/"},
	} {
		if got, err := prefixOf(c.url, c.parts); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.url, got, err)
		}
	}
}
