//go:build conformance

package kubernetes

import (
	"context"
	"strconv"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence/fencetest"
)

// number is an object of the application with a number in an annotation. It is a Lease,
// because the client of this package knows no other kind.
type number struct{ *store }

const (
	numberName       = "number"
	numberAnnotation = "example.org/number"
)

func (n number) read(ctx context.Context) (*coordination.Lease, int, error) {
	lease := &coordination.Lease{}
	err := n.client.Get().Namespace(n.namespace).Resource(resource).Name(numberName).Do(ctx).Into(lease)
	value, _ := strconv.Atoi(lease.Annotations[numberAnnotation])
	return lease, value, err
}

// change updates the object on behalf of a leadership, and tries again after each conflict.
func (n number) change(ctx context.Context, token election.Token, edit func(int) int) (int, error) {
	for {
		lease, value, err := n.read(ctx)
		if err != nil {
			return 0, err
		}
		if err := Fence(lease, token); err != nil {
			return 0, err
		}
		value = edit(value)
		lease.Annotations[numberAnnotation] = strconv.Itoa(value)
		err = n.client.Put().Namespace(n.namespace).Resource(resource).Name(numberName).Body(lease).Do(ctx).Error()
		if !api.IsConflict(err) {
			return value, err
		}
	}
}

func TestFenceOnTheObjectsOfTheAPIServer(t *testing.T) {
	c := startCluster(t)
	fencetest.Run(t, func(t *testing.T) fencetest.Resource {
		n := number{operator(t, c.namespace(t))}
		made := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: numberName}}
		if err := n.client.Post().Namespace(n.namespace).Resource(resource).Body(made).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		return fencetest.Resource{
			Claim: func(ctx context.Context, token election.Token) (int, error) {
				return n.change(ctx, token, func(value int) int { return value })
			},
			Write: func(ctx context.Context, token election.Token, value int) error {
				_, err := n.change(ctx, token, func(int) int { return value })
				return err
			},
			Read: func(ctx context.Context) (int, error) {
				_, value, err := n.read(ctx)
				return value, err
			},
		}
	})
}

// TestUpdateOfALeaderOfThePastIsAConflict although it read the object while it led:
// nothing is checked in between.
func TestUpdateOfALeaderOfThePastIsAConflict(t *testing.T) {
	n := number{operator(t, startCluster(t).namespace(t))}
	made := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: numberName}}
	if err := n.client.Post().Namespace(n.namespace).Resource(resource).Body(made).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	late, _, err := n.read(t.Context())
	if err == nil {
		err = Fence(late, 33)
	}
	var condition *meta.Preconditions
	if err == nil {
		condition, err = FenceDelete(late, 33)
	}
	if err == nil {
		_, err = n.change(t.Context(), 34, func(int) int { return 1 })
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.client.Put().Namespace(n.namespace).Resource(resource).Name(numberName).Body(late).Do(t.Context()).Error(); !api.IsConflict(err) {
		t.Errorf("the update: %v", err)
	}
	deletion := &meta.DeleteOptions{Preconditions: condition}
	if err := n.client.Delete().Namespace(n.namespace).Resource(resource).Name(numberName).Body(deletion).Do(t.Context()).Error(); !api.IsConflict(err) {
		t.Errorf("the deletion: %v", err)
	}
}
