package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/election/fence/grpcfence"
	"github.com/conclave-project/conclave/internal/awaittest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// numbers is a service with one number: Put replaces it if the request is not
// negative, and returns it; Watch repeats it on a stream.
type numbers struct{ number int64 }

func (n *numbers) put(request *wrapperspb.Int64Value) *wrapperspb.Int64Value {
	if request.Value >= 0 {
		n.number = request.Value
	}
	return wrapperspb.Int64(n.number)
}

// service is what a generated description would look like.
var service = grpc.ServiceDesc{
	ServiceName: "numbers", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Put", Handler: func(server any, ctx context.Context,
		decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(wrapperspb.Int64Value)
		if err := decode(request); err != nil {
			return nil, err
		}
		return intercept(ctx, request, &grpc.UnaryServerInfo{Server: server, FullMethod: "/numbers/Put"},
			func(ctx context.Context, r any) (any, error) {
				if _, err := fence.TokenOf(ctx); err != nil {
					return nil, err
				}
				value := r.(*wrapperspb.Int64Value)
				if value.Value == refusedByItself {
					return nil, status.Error(codes.FailedPrecondition, "a reason of the service's own")
				}
				return server.(*numbers).put(value), nil
			})
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, ClientStreams: true,
		Handler: func(server any, s grpc.ServerStream) error {
			request := new(wrapperspb.Int64Value)
			for {
				if err := s.RecvMsg(request); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if request.Value == untilTheEnd {
					if err := s.SendMsg(request); err != nil {
						return err
					}
					<-s.Context().Done()
					return status.FromContextError(s.Context().Err()).Err()
				}
				for again := true; again; again = request.Value == withoutEnd {
					err := s.SendMsg(server.(*numbers).put(request))
					if err != nil && request.Value == withoutEnd {
						return err
					}
					if err != nil {
						return nil // it is done, although the answer was not sent: not a refusal
					}
				}
			}
		}}},
}

const (
	refusedByItself = 1 << 30
	untilTheEnd     = 1 << 41
	withoutEnd      = 1 << 42
)

// serve runs the service behind a fence and returns a connection to it.
func serve(t testing.TB, f *fence.Fence) *grpc.ClientConn {
	conn, stop, err := connect(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return conn
}

func connect(f *fence.Fence) (*grpc.ClientConn, func(), error) {
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(
		grpc.UnaryInterceptor(grpcfence.UnaryServer(f, "number")),
		grpc.StreamInterceptor(grpcfence.StreamServer(f, "number")))
	server.RegisterService(&service, &numbers{})
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///numbers",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcfence.UnaryClient),
		grpc.WithStreamInterceptor(grpcfence.StreamClient))
	return conn, func() { _ = conn.Close(); server.Stop() }, err
}

func put(ctx context.Context, conn *grpc.ClientConn, value int) (int, error) {
	answer := new(wrapperspb.Int64Value)
	err := conn.Invoke(ctx, "/numbers/Put", wrapperspb.Int64(int64(value)), answer)
	return int(answer.Value), err
}

func TestCallsLoseNoUpdate(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource {
		f := fence.New()
		conn := serve(t, f)
		return fencetest.Resource{
			Claim: func(ctx context.Context, token election.Token) (int, error) {
				return put(fence.WithToken(ctx, token), conn, -1)
			},
			Write: func(ctx context.Context, token election.Token, value int) error {
				_, err := put(fence.WithToken(ctx, token), conn, value)
				return err
			},
			Read: func(ctx context.Context) (int, error) {
				return put(fence.WithToken(ctx, f.Seen("number")), conn, -1)
			},
		}
	})
}

func TestStreamsLoseNoUpdate(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource {
		f := fence.New()
		conn := serve(t, f)
		return fencetest.Resource{
			Claim: func(ctx context.Context, token election.Token) (int, error) {
				return say(fence.WithToken(ctx, token), conn, -1)
			},
			Write: func(ctx context.Context, token election.Token, value int) error {
				_, err := say(fence.WithToken(ctx, token), conn, value)
				return err
			},
			Read: func(ctx context.Context) (int, error) {
				return say(fence.WithToken(ctx, f.Seen("number")), conn, -1)
			},
		}
	})
}

// say sends one message on a stream of its own.
func say(ctx context.Context, conn *grpc.ClientConn, value int) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := watch(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := s.SendMsg(wrapperspb.Int64(int64(value))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	answer := new(wrapperspb.Int64Value)
	err = s.RecvMsg(answer)
	switch {
	case errors.Is(err, io.EOF) && value < 0:
		return 0, fence.ErrStale // a newer leader came before the number did
	case errors.Is(err, io.EOF):
		return value, nil // done, but the answer was not sent in time
	}
	return int(answer.Value), err
}

func watch(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &service.Streams[0], "/numbers/Watch")
}

// A stream that an older leader keeps open ends when a newer leader arrives.
func TestNewerTokenEndsAnOlderStream(t *testing.T) {
	f, ctx := fence.New(), awaittest.Within(t)
	conn := serve(t, f)
	s, err := watch(fence.WithToken(ctx, 1), conn)
	if err != nil {
		t.Fatal(err)
	}
	answer := new(wrapperspb.Int64Value)
	if err := errors.Join(s.SendMsg(wrapperspb.Int64(untilTheEnd)), s.RecvMsg(answer)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(fence.WithToken(ctx, 2), conn, 5); err != nil {
		t.Error(err)
	}
	var stale *fence.StaleError
	if err := s.RecvMsg(answer); !errors.As(err, &stale) || stale.Seen != 2 {
		t.Errorf("the older stream ended with %v", err)
	}
}

// An older leader sends nothing on its stream, or receives nothing from it, because
// it is idle or frozen.
func TestSilentStreamKeepsNoNewerTokenOut(t *testing.T) {
	for _, first := range []int64{3, withoutEnd} {
		f, ctx := fence.New(), awaittest.Within(t)
		conn := serve(t, f)
		s, err := watch(fence.WithToken(ctx, 1), conn)
		if err != nil {
			t.Fatal(err)
		}
		answer := new(wrapperspb.Int64Value)
		if err := errors.Join(s.SendMsg(wrapperspb.Int64(first)), s.RecvMsg(answer)); err != nil {
			t.Fatal(err)
		}
		if _, err := put(fence.WithToken(ctx, 2), conn, 5); err != nil {
			t.Errorf("the newer one is kept out: %v", err)
		}
		for err == nil {
			err = s.RecvMsg(answer)
		}
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the older stream ended with %v", err)
		}
	}
}

func TestRefusalsHaveTheirCodes(t *testing.T) {
	f, ctx := fence.New(), awaittest.Within(t)
	conn := serve(t, f)
	if _, err := put(ctx, conn, 1); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("a client without a token: %v", err)
	}
	if _, err := put(fence.WithToken(ctx, 34), conn, refusedByItself); status.Code(err) != codes.FailedPrecondition || errors.Is(err, fence.ErrStale) {
		t.Errorf("a reason of the service's own: %v", err)
	}
	_, err := put(fence.WithToken(ctx, 33), conn, 1)
	var stale *fence.StaleError
	if !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "/numbers/Put", Token: 33, Seen: 34}) {
		t.Errorf("a stale token: %v", err)
	}
	// A client without the interceptors.
	bare := grpcfence.UnaryServer(f, "number")
	for token, want := range map[string]codes.Code{
		"": codes.InvalidArgument, "x": codes.InvalidArgument, "0": codes.InvalidArgument,
		"33": codes.FailedPrecondition, "34": codes.OK,
	} {
		ctx := ctx
		if token != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(grpcfence.Key, token))
		}
		_, err := bare(ctx, nil, nil, func(context.Context, any) (any, error) { return nil, nil })
		if status.Code(err) != want {
			t.Errorf("token %q: %v, expected %v", token, err, want)
		}
	}
}

// A token that somebody else has put into the context's metadata is not sent
// together with that of the leadership.
func TestTokenIsSentOnce(t *testing.T) {
	f := fence.New()
	ctx := metadata.AppendToOutgoingContext(awaittest.Within(t), grpcfence.Key, "99", "other", "kept")
	conn := serve(t, f)
	if _, err := put(fence.WithToken(ctx, 7), conn, 1); err != nil || f.Seen("number") != 7 {
		t.Errorf("seen %d, %v", f.Seen("number"), err)
	}
}
