package fence

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/election"
)

// Metadata of an object: the token of its writer, and a random mark of the
// write. The names are letters alone, because Azure takes no others.
const (
	MetadataToken = "conclavetoken"
	MetadataWrite = "conclavewrite"
)

// Object is an object of a store with conditional writes: S3, Azure blobs,
// Google Cloud Storage and their like.
type Object struct {
	Data []byte
	// Metadata is what the user keeps beside the data. Stores may change the
	// case of its names.
	Metadata map[string]string
	// ETag names the present state of the object in a condition.
	ETag string
}

// Objects is a store of objects as any client library gives it: ten lines each,
// see the examples.
type Objects interface {
	// Get returns an object, ErrNoObject if there is none.
	Get(ctx context.Context, key string) (Object, error)
	// Put writes data and metadata if the object still has the ETag (If-Match),
	// or, if the ETag is empty, if there is none (If-None-Match: *).
	// ErrChanged says that the condition did not hold. It makes one attempt:
	// switch off the retries of the client library, which turn a write whose
	// answer was lost into ErrChanged. UpdateObject sees through that unless
	// somebody else has written since.
	Put(ctx context.Context, key string, object Object) error
}

// ErrNoObject is what Get of Objects returns when there is no such object.
var ErrNoObject = errors.New("no such object")

// objectTries bounds the attempts of UpdateObject. Each that is in vain means
// that somebody else has written: with one leader, one or two.
const objectTries = 100

// UpdateObject replaces an object by what change makes of it (nil if it is not
// there), with the token in its metadata. ErrStale says that a later leader has
// written it; an error of change comes out as it is; then nothing was written.
// After another error nobody knows. The condition on the ETag holds what was compared together with what is
// written (F2). change may be called several times.
func UpdateObject(ctx context.Context, objects Objects, key string, token election.Token,
	change func(old []byte) ([]byte, error)) error {
	mine := ""
	for range objectTries {
		old, err := objects.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNoObject) {
			return fmt.Errorf("fence %q: read: %w", key, err)
		}
		if mine != "" && metadata(old, MetadataWrite) == mine {
			return nil // it was written, but a retry below has hidden that
		}
		seen, err := TokenOfObject(old)
		if err == nil {
			err = Check(key, seen, token)
		}
		if err != nil {
			return err
		}
		data, err := change(old.Data)
		if err != nil {
			return err
		}
		mine = newMark()
		err = objects.Put(ctx, key, marked(old, data, token, mine))
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrChanged) {
			return fmt.Errorf("fence %q: write: %w", key, err)
		}
	}
	return fmt.Errorf("fence %q: %d writes in vain: %w", key, objectTries, ErrChanged)
}

// TokenOfObject returns the token with which an object was written, zero for
// one that was written without.
func TokenOfObject(o Object) (election.Token, error) {
	text := metadata(o, MetadataToken)
	if text == "" {
		return 0, nil
	}
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fence: metadata %s: %w", MetadataToken, err)
	}
	return election.Token(token), nil
}

func metadata(o Object, name string) string {
	for key, value := range o.Metadata {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// marked is what takes the place of old.
func marked(old Object, data []byte, token election.Token, mark string) Object {
	kept := maps.Clone(old.Metadata)
	maps.DeleteFunc(kept, func(name, _ string) bool {
		return strings.EqualFold(name, MetadataToken) || strings.EqualFold(name, MetadataWrite)
	})
	if kept == nil {
		kept = make(map[string]string)
	}
	kept[MetadataToken], kept[MetadataWrite] = format(token), mark
	return Object{Data: data, Metadata: kept, ETag: old.ETag}
}

func newMark() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
