// Package places keeps backups in object stores.
//
// In goes the URL of a store, as elections take it; out comes a place of package backup,
// whose files are the objects below the prefix of the URL. An object appears when all of it
// was taken, which both stores promise: one that did not come whole is none.
//
//	s3.go     S3, and stores that speak its protocol
//	azure.go  Azure Blob Storage
//
// What is kept below the prefix beside a backup is left alone. Nothing is locked: a place
// takes what several servers write, and one that is removed while it is read is missing.
package places

import (
	"errors"
	"io"
	"net/url"
	"strings"
)

// upload runs write and take at the same time, and take reads what write writes. It returns
// the error of write before that of take, which has followed from it.
func upload(write func(io.Writer) error, take func(io.Reader) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	err := take(r)
	_ = r.CloseWithError(errors.Join(errUpload, err)) // write ends, if it has not
	failed := <-written
	if failed == nil || err != nil && errors.Is(failed, errUpload) {
		return err
	}
	return failed
}

var errUpload = errors.New("the store has not taken the whole file")

// prefixOf returns what stands before the names of files: the path of the URL after so many
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
