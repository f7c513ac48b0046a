package check

import (
	"maps"
	"slices"
)

// Kept follows znodes that are created and deleted at most once each, under names that
// nobody else uses, and checks that in the end those exist that must. It needs no zxid, so
// it can also judge servers whose state cannot be read.
type Kept struct {
	fates map[string]fate
}

// fate is what is known about a name.
type fate uint8

const (
	maybeCreated fate = 1 << iota // requested; no answer, or not yet
	created                       // acknowledged
	maybeDeleted
	deleted
)

// NewKept returns a checker without names.
func NewKept() *Kept { return &Kept{fates: map[string]fate{}} }

// Creating says that a create of path was sent.
func (k *Kept) Creating(path string) { k.fates[path] |= maybeCreated }

// Created says that the create was acknowledged.
func (k *Kept) Created(path string) { k.fates[path] |= maybeCreated | created }

// NotCreated says that the create has certainly not happened.
func (k *Kept) NotCreated(path string) { k.fates[path] &^= maybeCreated }

// Deleting says that a delete of path was sent.
func (k *Kept) Deleting(path string) { k.fates[path] |= maybeDeleted }

// Deleted says that the delete was acknowledged.
func (k *Kept) Deleted(path string) { k.fates[path] |= maybeDeleted | deleted }

// NotDeleted says that the delete has certainly not happened.
func (k *Kept) NotDeleted(path string) { k.fates[path] &^= maybeDeleted }

// Final compares with the existing paths, when no request is in progress any more. A path
// that nobody has asked for is an error.
func (k *Kept) Final(paths []string) error {
	there := map[string]bool{}
	for _, path := range paths {
		there[path] = true
		switch f := k.fates[path]; {
		case f&maybeCreated == 0:
			return broken("kept", "%s is there, and nobody has created it", path)
		case f&deleted != 0:
			return broken("kept", "%s is there, and its deletion was acknowledged", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(k.fates)) {
		if f := k.fates[path]; f&created != 0 && f&maybeDeleted == 0 && !there[path] {
			return broken("kept", "%s is gone: its creation was acknowledged, and nobody has deleted it", path)
		}
	}
	return nil
}
