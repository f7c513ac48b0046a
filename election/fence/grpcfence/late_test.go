package grpcfence_test

import (
	"context"
	"net"
	"testing"

	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/grpcfence"
	"github.com/conclave-project/conclave/internal/awaittest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// noting reports when a RecvMsg below the fence begins and when it has returned.
type noting struct {
	grpc.ServerStream
	begun, returned chan struct{}
}

func (n *noting) RecvMsg(message any) error {
	n.begun <- struct{}{}
	defer func() { n.returned <- struct{}{} }()
	return n.ServerStream.RecvMsg(message)
}

// TestMessageIsTheHandlersOnceRecvMsgHasReturned: a newer token has ended the call, and the
// handler is using the message for something else when the older leader sends again.
func TestMessageIsTheHandlersOnceRecvMsgHasReturned(t *testing.T) {
	f := fence.New()
	begun, received, ended, looked := make(chan struct{}, 2), make(chan struct{}, 2), make(chan struct{}), make(chan int64, 2)
	late := grpc.ServiceDesc{ServiceName: "late", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: "Watch",
		ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			message := wrapperspb.Int64(5) // an old value, which is not merged with
			if err := s.RecvMsg(message); err != nil {
				t.Error(err)
			}
			<-received
			looked <- message.Value
			proto.Reset(message)
			err := s.RecvMsg(message)
			close(ended)
			<-received
			looked <- message.Value
			return err
		}}}}
	note := func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(server, &noting{s, begun, received})
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.ChainStreamInterceptor(note, grpcfence.StreamServer(f, "number")))
	server.RegisterService(&late, new(any))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///late", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithStreamInterceptor(grpcfence.StreamClient))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := conn.NewStream(fence.WithToken(awaittest.Within(t), 1), &late.Streams[0], "/late/Watch")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(wrapperspb.Int64(0)); err != nil {
		t.Fatal(err)
	}
	if value := <-looked; value != 0 {
		t.Errorf("%d is received, 0 was sent", value)
	}
	<-begun
	<-begun
	if err := f.Check("number", 2); err != nil { // a newer leader
		t.Fatal(err)
	}
	<-ended
	if err := s.SendMsg(wrapperspb.Int64(99)); err != nil { // the older leader does not know yet
		t.Fatal(err)
	}
	if value := <-looked; value != 0 {
		t.Errorf("%d was written into the message after RecvMsg had returned", value)
	}
}
