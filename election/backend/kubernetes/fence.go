package kubernetes

import (
	"fmt"
	"strconv"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// TokenAnnotation is the annotation that holds the highest token with which an object was written.
const TokenAnnotation = "conclave-project.github.io/token"

// Fence prepares an object of any kind, as it was read, for an update on behalf of the leadership
// with this token, from any backend: it puts the token into an annotation, or returns an error
// that matches fence.ErrStale if a later leader has already done so. The update then carries the
// resourceVersion that was read, and the API server refuses it with a conflict if anybody has
// written since. After a conflict, read the object again and call Fence again, which reports
// whether the writer was a later leader.
//
// The API server has no transactions over several objects, so a write to another object cannot
// check the election's Lease. Instead, a new leader closes each object to its predecessors by an
// update of its own, as with all of package fence. Fence refuses an object without a
// resourceVersion, because its update would have no condition; the creation of an object is not
// protected. Patches are protected only if they carry metadata.resourceVersion and the annotation.
func Fence(object meta.Object, token election.Token) error {
	if err := checkToken(object, token); err != nil {
		return err
	}
	object.SetAnnotations(with(object.GetAnnotations(),
		map[string]string{TokenAnnotation: strconv.FormatUint(uint64(token), 10)}))
	return nil
}

// FenceDelete returns preconditions for a deletion (meta.DeleteOptions), or an error as Fence
// does. With them, the API server refuses the deletion with a conflict if the object has changed
// since it was read.
func FenceDelete(object meta.Object, token election.Token) (*meta.Preconditions, error) {
	if err := checkToken(object, token); err != nil {
		return nil, err
	}
	var uid *types.UID
	if known := object.GetUID(); known != "" {
		uid = &known
	}
	version := object.GetResourceVersion()
	return &meta.Preconditions{UID: uid, ResourceVersion: &version}, nil
}

// checkToken compares a token with that of an object.
func checkToken(object meta.Object, token election.Token) error {
	name := object.GetNamespace() + "/" + object.GetName()
	if object.GetResourceVersion() == "" {
		return fmt.Errorf("kubernetes: fence %s: it has no resourceVersion; read it first: %w", name, election.ErrInvalid)
	}
	var seen uint64
	if text, found := object.GetAnnotations()[TokenAnnotation]; found {
		var err error
		if seen, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("kubernetes: fence %s: its annotation %s is no token: %w", name, TokenAnnotation, err)
		}
	}
	return fence.Check(name, election.Token(seen), token)
}
