package fence

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/election"
)

// Objects is a store of objects with conditional writes (S3, Azure blobs, Google Cloud Storage
// and the like). It takes some ten lines over any client library: see the examples of the module
// election/fence/integration.
type Objects interface {
	// Get returns the bytes of an object and its ETag, ErrNoObject if there is
	// none.
	Get(ctx context.Context, key string) (data []byte, etag string, err error)
	// Put writes the bytes if the object still has the ETag (If-Match), or, if the ETag is empty,
	// if there is none (If-None-Match: *). ErrChanged means that the condition did not hold. Put
	// makes one attempt: switch off the retries of the client library, which turn a write whose
	// answer was lost into ErrChanged. UpdateObject recognizes such a write unless somebody else
	// has written since.
	Put(ctx context.Context, key string, data []byte, etag string) error
}

// ErrNoObject is what Get of Objects returns when there is no such object.
var ErrNoObject = errors.New("no such object")

// An object that UpdateObject has written begins with a line, followed by the data:
//
//	conclave object 1 token=42 write=8c1f0a...
//
// The token is in the bytes and not in metadata, because the ETag of S3 is a checksum of
// the bytes alone. If a new leader wrote the same data with a new token in the metadata,
// the ETag would not change, and the condition of a zombie's write would still hold. The
// random mark of the write makes each ETag different.
const (
	objectHeader         = "conclave object 1 token=%d write=%s\n"
	objectPrefix         = "conclave object "
	objectHeaderBytesMax = 120
)

// ObjectContent is what an object holds.
type ObjectContent struct {
	Data  []byte
	Token election.Token // of its writer; zero for one written without a fence
	write string
	etag  string
}

// objectTries bounds the attempts of UpdateObject. An attempt fails only because another
// process has written, which a single leader meets once or twice.
const objectTries = 100

// UpdateObject replaces the data of an object by what change returns for it; change gets nil if
// there is no object, and may be called several times. ErrStale means that a later leader has
// written the object; an error of change is returned as it is; in both cases nothing was written.
// After any other error the outcome is unknown. The condition on the ETag makes comparison and
// write one step (fence-F2). An object that was written without a fence counts as data with token
// zero.
func UpdateObject(ctx context.Context, objects Objects, key string, token election.Token,
	change func(old []byte) ([]byte, error)) error {
	mine := ""
	for range objectTries {
		old, err := ReadObject(ctx, objects, key)
		if err != nil {
			return err
		}
		if mine != "" && old.write == mine {
			return nil // an earlier Put succeeded, but a retry inside it has hidden that
		}
		if err := Check(key, old.Token, token); err != nil {
			return err
		}
		data, err := change(old.Data)
		if err != nil {
			return err
		}
		mine = newMark()
		data = append(fmt.Appendf(nil, objectHeader, token, mine), data...)
		err = objects.Put(ctx, key, data, old.etag)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrChanged) {
			return fmt.Errorf("fence %q: write: %w", key, err)
		}
	}
	return fmt.Errorf("fence %q: gave up after %d writes: %w", key, objectTries, ErrChanged)
}

// ReadObject returns what an object holds, or the zero ObjectContent if it does not exist.
func ReadObject(ctx context.Context, objects Objects, key string) (ObjectContent, error) {
	data, etag, err := objects.Get(ctx, key)
	if errors.Is(err, ErrNoObject) {
		return ObjectContent{}, nil
	}
	if err == nil && etag == "" {
		err = errors.New("it has no ETag")
	}
	if err != nil {
		return ObjectContent{}, fmt.Errorf("fence %q: read: %w", key, err)
	}
	if !bytes.HasPrefix(data, []byte(objectPrefix)) {
		return ObjectContent{Data: data, etag: etag}, nil
	}
	c := ObjectContent{etag: etag}
	at := bytes.IndexByte(data[:min(len(data), objectHeaderBytesMax)], '\n') + 1
	if _, err := fmt.Sscanf(string(data[:at]), objectHeader, &c.Token, &c.write); err != nil {
		return ObjectContent{}, fmt.Errorf("fence %q: its first line is not that of a fence: %w", key, err)
	}
	c.Data = data[at:]
	return c, nil
}

func newMark() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
