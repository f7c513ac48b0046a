// Package grpcfence carries fencing tokens over gRPC, and refuses stale ones.
//
// The interceptors for a server are made from a fence.Fence and the name of the resource that the
// server is. The interceptors for clients take the token from the context of the leader's
// function (fence.TokenOf). The rules of package fence hold; a call with an older token than one
// seen before ends with codes.FailedPrecondition.
package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// Key is the metadata key that carries a token, in decimal digits. In the trailer of a refused
// call it is the token that caused the refusal.
const Key = "conclave-token"

// UnaryServer admits calls that have the newest token, and keeps it in their context
// (fence.TokenOf). When a newer one comes, the contexts of older calls that still run end, and
// the newer one waits for them. Refused calls end with
//
//	FailedPrecondition   the token is stale; or it became so, and the handler
//	                     ended with codes.Canceled: what it had done is done
//	InvalidArgument      there is none, or it is no number
//	Unavailable          it could not be stored, or older calls did not end
//	                     while this one waited
func UnaryServer(f *fence.Fence, resource string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
		err = do(ctx, f, resource, func(ctx context.Context) (err error) {
			answer, err = handle(ctx, request)
			return err
		}, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		return answer, err
	}
}

// StreamServer is UnaryServer for streams: the token is the one with which the stream was opened.
// A newer token ends the stream's context, and its RecvMsg and SendMsg with codes.Canceled, so a
// silent client delays nobody. The client of such a stream gets a *fence.StaleError. Nothing
// writes into a protobuf message once RecvMsg has returned; do not use a message of another codec
// again after an error.
func StreamServer(f *fence.Fence, resource string) grpc.StreamServerInterceptor {
	return func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return do(s.Context(), f, resource, func(ctx context.Context) error {
			return handle(server, &stream{s, ctx})
		}, s.SetTrailer)
	}
}

// stream is a ServerStream with another context, whose end also ends RecvMsg and SendMsg.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives into a separate message if it can: a call that is abandoned must not
// write into the handler's message, which the handler may use again.
func (s *stream) RecvMsg(message any) error {
	into, hand := apart(message)
	err := s.during(func() error { return s.ServerStream.RecvMsg(into) })
	if err == nil {
		hand()
	}
	return err
}

// apart returns an empty message of the same kind, and a function that copies it into the
// given one. A message that is not of protobuf is returned itself.
func apart(message any) (into any, hand func()) {
	to, ok := message.(proto.Message)
	if !ok || !to.ProtoReflect().IsValid() {
		return message, func() {}
	}
	from := to.ProtoReflect().New().Interface()
	return from, func() {
		proto.Reset(to)
		proto.Merge(to, from)
	}
}

func (s *stream) SendMsg(message any) error {
	return s.during(func() error { return s.ServerStream.SendMsg(message) })
}

// during returns when the call returns or the context ends. In the second case the call is
// abandoned: no other follows it, and it ends with the stream, when its handler has
// returned.
func (s *stream) during(call func() error) error {
	ended := make(chan error, 1)
	if s.ctx.Err() == nil {
		go func() { ended <- call() }()
	}
	select {
	case err := <-ended:
		return err
	case <-s.ctx.Done():
		return status.Error(status.FromContextError(s.ctx.Err()).Code(), context.Cause(s.ctx).Error())
	}
}

// do runs act behind the fence. An error of act is returned unchanged, a refusal as a gRPC
// status.
func do(ctx context.Context, f *fence.Fence, resource string, act func(context.Context) error,
	trailer func(metadata.MD)) error {
	token, err := incoming(ctx)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	var own, ended error
	err = f.Do(ctx, resource, token, func(ctx context.Context) error {
		own, ended = act(fence.WithToken(ctx, token)), context.Cause(ctx)
		return nil
	})
	var stale *fence.StaleError
	if err == nil && canceled(own) && errors.As(ended, &stale) {
		err = stale // a newer token has ended what the handler was doing
	}
	switch {
	case err == nil:
		return own
	case errors.As(err, &stale):
		trailer(metadata.Pairs(Key, format(stale.Seen)))
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// canceled reports whether a handler returned because its context had ended.
func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// incoming returns the token of an incoming call.
func incoming(ctx context.Context) (election.Token, error) {
	values := metadata.ValueFromIncomingContext(ctx, Key)
	if len(values) != 1 {
		return 0, fmt.Errorf("metadata %s: %w (%d values)", Key, fence.ErrNoToken, len(values))
	}
	return parse(values[0])
}

func parse(text string) (election.Token, error) {
	token, err := strconv.ParseUint(text, 10, 64)
	if err == nil && token == 0 {
		err = fence.ErrNoToken
	}
	if err != nil {
		return 0, fmt.Errorf("metadata %s: %w", Key, err)
	}
	return election.Token(token), nil
}

func format(token election.Token) string { return strconv.FormatUint(uint64(token), 10) }

// UnaryClient sends the token of the context along (fence.TokenOf). Without one, or after the
// leadership has ended, it sends nothing. A refusal is returned as a *fence.StaleError: a leader
// that gets it should stop leading.
func UnaryClient(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	token, err := fence.TokenOf(ctx)
	if err != nil {
		return err
	}
	var trailer metadata.MD
	options = append(options, grpc.Trailer(&trailer))
	err = invoke(outgoing(ctx, token), method, request, answer, conn, options...)
	return judge(err, method, token, trailer)
}

// StreamClient is UnaryClient for streams. A refusal is returned by RecvMsg.
func StreamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	token, err := fence.TokenOf(ctx)
	if err != nil {
		return nil, err
	}
	s, err := open(outgoing(ctx, token), desc, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return &clientStream{s, method, token}, nil
}

// clientStream turns a refusal into a *fence.StaleError.
type clientStream struct {
	grpc.ClientStream
	method string
	token  election.Token
}

func (s *clientStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	return judge(err, s.method, s.token, s.Trailer())
}

func outgoing(ctx context.Context, token election.Token) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Key, format(token)) // replaces a value that was set before
	return metadata.NewOutgoingContext(ctx, md)
}

// judge turns a refusal by a fence into a *fence.StaleError. A server may return
// FailedPrecondition for reasons of its own; then the trailer has no token.
func judge(err error, method string, token election.Token, trailer metadata.MD) error {
	values := trailer.Get(Key)
	if status.Code(err) != codes.FailedPrecondition || len(values) != 1 {
		return err
	}
	seen, errParse := parse(values[0])
	if errParse != nil {
		return err
	}
	return &fence.StaleError{Resource: method, Token: token, Seen: seen}
}
