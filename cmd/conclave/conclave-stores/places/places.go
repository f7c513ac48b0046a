// Package places stores backups in object stores.
//
// It opens the URL of a store, in the form that elections take, as a place of package
// backup whose files are the objects below the URL's prefix. An object appears only when it
// is complete, which both stores guarantee: after a partial upload there is no object.
//
//	s3.go     S3, and stores that speak its protocol
//	azure.go  Azure Blob Storage
//
// Other objects below the prefix are left alone. There are no locks: several servers may
// write to a place at once, and a file that is removed while it is read is reported as
// missing.
package places

import (
	"errors"
	"io"
	"net/url"
	"strings"
)

// upload runs write and take concurrently; take reads what write writes. If write fails,
// its error is returned, because an error of take is then only a consequence.
func upload(write func(io.Writer) error, take func(io.Reader) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	err := take(r)
	_ = r.CloseWithError(errors.Join(errUpload, err)) // ends write if it still runs
	failed := <-written
	if failed == nil || err != nil && errors.Is(failed, errUpload) {
		return err
	}
	return failed
}

var errUpload = errors.New("the store has not taken the whole file")

// prefixOf returns the prefix of file names: the path of the URL after the given number of
// parts.
func prefixOf(text string, parts int) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("not a URL")
	}
	path := strings.Trim(u.Path, "/")
	for range parts {
		_, path, _ = strings.Cut(path, "/")
	}
	if path == "" {
		return "", nil
	}
	return path + "/", nil
}
