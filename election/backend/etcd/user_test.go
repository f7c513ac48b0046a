package etcd

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// guarded is as much of etcd with --client-cert-auth as is needed to check a user. A
// request without a token comes from the user of the certificate, who may do nothing.
type guarded struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedAuthServer
}

func (guarded) Authenticate(_ context.Context, r *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	if r.Name != "ann" || r.Password != "secret" {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	return &etcdserverpb.AuthenticateResponse{Token: "of ann"}, nil
}

func (guarded) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	switch carried := metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameGRPC); {
	case len(carried) == 0:
		return nil, rpctypes.ErrGRPCPermissionDenied
	case carried[0] != "of ann":
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{}}, nil
}

// TestUserIsToldToEtcdWhenTheBackendIsUsed: on hosts that boot together, the program
// starts before etcd.
func TestUserIsToldToEtcdWhenTheBackendIsUsed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers yet
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, guarded{})
	etcdserverpb.RegisterAuthServer(server, guarded{})
	t.Setenv("ETCDCTL_USER", "ann:secret")
	good, end, err := Open(t.Context(), "etcd://"+listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	t.Setenv("ETCDCTL_USER", "ann:guess")
	bad, end, err := Open(t.Context(), "etcd://"+listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if _, err := good.(election.Operator).Elections(awaittest.Within(t)); err != nil {
		t.Errorf("with the password: %v", err)
	}
	if _, err := bad.(election.Operator).Elections(awaittest.Within(t)); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("with another: %v", err)
	}
}
