package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
)

// bucket is a store of objects in memory.
type bucket struct {
	mu      sync.Mutex
	objects map[string]fence.Object
	writes  int
	// hide loses the answers of so many writes, and tries them again, as client
	// libraries do.
	hide int
	// before is called before each write.
	before func()
}

func (b *bucket) Get(_ context.Context, key string) (fence.Object, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	object, found := b.objects[key]
	if !found {
		return object, fence.ErrNoObject
	}
	return object, nil
}

func (b *bucket) Put(_ context.Context, key string, object fence.Object) error {
	if b.before != nil {
		b.before()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects[key].ETag != object.ETag {
		return fmt.Errorf("412: %w", fence.ErrChanged)
	}
	b.writes++
	upper := map[string]string{} // as HTTP headers come back
	for name, value := range object.Metadata {
		upper[strings.ToUpper(name[:1])+name[1:]] = value
	}
	object.ETag, object.Metadata = strconv.Itoa(b.writes), upper
	if b.objects == nil {
		b.objects = map[string]fence.Object{}
	}
	b.objects[key] = object
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
			object, err := objects.Get(ctx, "number")
			return number(object.Data), err
		},
	}
}

func TestFencedObjectLosesNoUpdate(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Resource { return inObject(&bucket{}) })
}

// Between a zombie's look at the object and its write a new leader writes.
func TestConditionHoldsTheTokenThatWasCompared(t *testing.T) {
	b, ctx := &bucket{}, within(t)
	b.before = func() {
		b.before = nil
		if err := fence.UpdateObject(ctx, b, "k", 2, func([]byte) ([]byte, error) { return []byte("new"), nil }); err != nil {
			t.Error(err)
		}
	}
	err := fence.UpdateObject(ctx, b, "k", 1, func([]byte) ([]byte, error) { return []byte("old"), nil })
	if !errors.Is(err, fence.ErrStale) || string(b.objects["k"].Data) != "new" {
		t.Errorf("%v, object %q", err, b.objects["k"].Data)
	}
}

func TestWriteThatWasHiddenByARetryIsNotDoneTwice(t *testing.T) {
	b, ctx := &bucket{hide: 1}, within(t)
	add := func(old []byte) ([]byte, error) { return append(old, 'x'), nil }
	if err := fence.UpdateObject(ctx, b, "k", 1, add); err != nil {
		t.Fatal(err)
	}
	if got := string(b.objects["k"].Data); got != "x" {
		t.Errorf("object %q", got)
	}
}

func TestMetadataOfOthersIsKept(t *testing.T) {
	b, ctx := &bucket{}, within(t)
	if err := b.Put(ctx, "k", fence.Object{Metadata: map[string]string{"owner": "me"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := fence.UpdateObject(ctx, b, "k", 3, func(old []byte) ([]byte, error) { return old, nil }); err != nil {
			t.Fatal(err)
		}
	}
	object := b.objects["k"]
	token, err := fence.TokenOfObject(object)
	if err != nil || token != 3 || object.Metadata["Owner"] != "me" || len(object.Metadata) != 3 {
		t.Errorf("token %d (%v), metadata %v", token, err, object.Metadata)
	}
	object.Metadata = map[string]string{fence.MetadataToken: "seven"}
	b.objects["k"] = object
	if err := fence.UpdateObject(ctx, b, "k", 3, nil); err == nil {
		t.Error("a token that is no number was overlooked")
	}
}
