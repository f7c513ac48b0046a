package fence_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// bucket is a store of objects in memory. As in S3, an ETag is a checksum of the bytes.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	// hide is how many writes lose their answer and are tried again, as client libraries do.
	hide int
	// before is called before each write.
	before func()
}

func etag(data []byte) string { return fmt.Sprintf("%x", md5.Sum(data)) }

func (b *bucket) Get(_ context.Context, key string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, found := b.objects[key]
	if !found {
		return nil, "", fence.ErrNoObject
	}
	return data, etag(data), nil
}

func (b *bucket) Put(_ context.Context, key string, data []byte, match string) error {
	if b.before != nil {
		b.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, found := b.objects[key]
	if found != (match != "") || found && etag(old) != match {
		return fmt.Errorf("412: %w", fence.ErrChanged)
	}
	if b.objects == nil {
		b.objects = map[string][]byte{}
	}
	b.objects[key] = data
	if b.hide > 0 {
		b.hide--
		return fmt.Errorf("412 at the second try: %w", fence.ErrChanged)
	}
	return nil
}

// inObject is a number in an object.
func inObject(objects fence.Objects) fencetest.Resource {
	number := func(data []byte) int {
		n, _ := strconv.Atoi(string(data))
		return n
	}
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (value int, err error) {
			err = fence.UpdateObject(ctx, objects, "number", token, func(old []byte) ([]byte, error) {
				value = number(old)
				return old, nil
			})
			return value, err
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			return fence.UpdateObject(ctx, objects, "number", token, func([]byte) ([]byte, error) {
				return []byte(strconv.Itoa(value)), nil
			})
		},
		Read: func(ctx context.Context) (int, error) {
			content, err := fence.ReadObject(ctx, objects, "number")
			return number(content.Data), err
		},
	}
}

func TestFencedObjectLosesNoUpdate(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Resource { return inObject(&bucket{}) })
}

// keep leaves the data as they are, as a new leader does when it claims them.
func keep(old []byte) ([]byte, error) { return old, nil }

// Between a zombie's read of the object and its write, a new leader claims the
// object and changes nothing: the zombie's condition must no longer hold.
func TestConditionHoldsTheTokenThatWasCompared(t *testing.T) {
	b, ctx := &bucket{}, awaittest.Within(t)
	if err := fence.UpdateObject(ctx, b, "k", 1, func([]byte) ([]byte, error) { return []byte("data"), nil }); err != nil {
		t.Fatal(err)
	}
	b.before = func() {
		b.before = nil
		if err := fence.UpdateObject(ctx, b, "k", 2, keep); err != nil {
			t.Error(err)
		}
	}
	err := fence.UpdateObject(ctx, b, "k", 1, func([]byte) ([]byte, error) { return []byte("zombie's"), nil })
	content, errRead := fence.ReadObject(ctx, b, "k")
	if !errors.Is(err, fence.ErrStale) || errRead != nil || string(content.Data) != "data" || content.Token != 2 {
		t.Errorf("%v, content %+v (%v)", err, content, errRead)
	}
}

func TestWriteThatWasHiddenByARetryIsNotDoneTwice(t *testing.T) {
	b, ctx := &bucket{hide: 1}, awaittest.Within(t)
	add := func(old []byte) ([]byte, error) { return append(old, 'x'), nil }
	if err := fence.UpdateObject(ctx, b, "k", 1, add); err != nil {
		t.Fatal(err)
	}
	if content, err := fence.ReadObject(ctx, b, "k"); err != nil || string(content.Data) != "x" {
		t.Errorf("content %+v, %v", content, err)
	}
}

func TestObjectWrittenWithoutAFenceIsTakenOver(t *testing.T) {
	b, ctx := &bucket{}, awaittest.Within(t)
	if err := b.Put(ctx, "k", []byte("from before\n"), ""); err != nil {
		t.Fatal(err)
	}
	if err := fence.UpdateObject(ctx, b, "k", 3, keep); err != nil {
		t.Fatal(err)
	}
	content, err := fence.ReadObject(ctx, b, "k")
	if err != nil || content.Token != 3 || string(content.Data) != "from before\n" {
		t.Errorf("content %+v, %v", content, err)
	}
	b.objects["k"] = []byte("conclave object 1 token=x write=y\n")
	if err := fence.UpdateObject(ctx, b, "k", 3, keep); err == nil {
		t.Error("a token that is no number was overlooked")
	}
}
