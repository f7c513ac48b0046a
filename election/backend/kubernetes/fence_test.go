package kubernetes

import (
	"errors"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

func TestFenceRefusesWhatALaterLeaderHasWritten(t *testing.T) {
	object := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "7"}}
	for _, token := range []election.Token{33, 33, 34} {
		if err := Fence(object, token); err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	if err := Fence(object, 33); !errors.Is(err, fence.ErrStale) || object.Annotations[TokenAnnotation] != "34" {
		t.Errorf("an older token: %v, the annotations are %v", err, object.Annotations)
	}
	if _, err := FenceDelete(object, 33); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a deletion with an older token: %v", err)
	}
	condition, err := FenceDelete(object, 34)
	if err != nil || *condition.UID != "u" || *condition.ResourceVersion != "7" {
		t.Errorf("a deletion: %+v, %v", condition, err)
	}
	if err := Fence(object, 0); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("no token: %v", err)
	}
	object.Annotations[TokenAnnotation] = "many"
	if err := Fence(object, 35); err == nil {
		t.Error("an annotation that is no token is written over")
	}
	if err := Fence(&coordination.Lease{}, 35); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("an object that was not read: %v", err)
	}
}
