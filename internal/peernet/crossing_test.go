package peernet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/sasl"
)

// tcpLike makes connections in memory that accept a deadline after the other end is
// closed, as TCP connections do.
type tcpLike struct{ *pipePort }

func (l tcpLike) Accept() (net.Conn, error) {
	socket, err := l.pipePort.Accept()
	if err != nil {
		return nil, err
	}
	return undated{socket}, nil
}

type undated struct{ net.Conn }

func (s undated) SetDeadline(at time.Time) error     { _ = s.Conn.SetDeadline(at); return nil }
func (s undated) SetReadDeadline(at time.Time) error { _ = s.Conn.SetReadDeadline(at); return nil }

// Servers that are far from each other, or speak TLS, take some time to open a connection.
// The connection that the smaller number dials may be ready when that of the larger number
// is already in use: it is useless then, and must not end the one in use.
func TestCrossingDialsThatTakeTimeEndInOneConnection(t *testing.T) {
	for _, proves := range []bool{false, true} {
		crossingDials(t, proves)
	}
}

// slowClient is a SASL exchange over a slow network.
type slowClient struct {
	sasl.Client
	takes time.Duration // until it has the first answer
}

func (c *slowClient) Next(said []byte) ([]byte, bool, error) {
	time.Sleep(c.takes)
	c.takes = 0
	return c.Client.Next(said)
}

func crossingDials(t *testing.T, proves bool) {
	for _, takes := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second} {
		t.Run(fmt.Sprintf("%v,proves=%t", takes, proves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ports := pipes{}
				var dials [3]atomic.Int64
				var votes [3]*Votes
				for id := quorum.ID(1); id <= 2; id++ {
					var proofs *Proofs
					if proves {
						proofs = proving("between", true)
						proofs.Client = func(string) (sasl.Client, error) {
							return &slowClient{sasl.DigestClient(between, "server", "between"), takes}, nil
						}
					}
					v, err := NewVotes(VotesOptions{
						Proofs: proofs,
						ID:     id, Listener: tcpLike{ports.listen(uint16(id))}, Advertise: []peerwire.Address{{Host: "far", Port: uint16(id)}},
						Addresses: func(of quorum.ID) []peerwire.Address { return []peerwire.Address{{Host: "far", Port: uint16(of)}} },
						Receive:   func(quorum.ID, fle.Notification) {}, Logger: quiet,
						Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
							dials[id].Add(1)
							select {
							case <-time.After(takes):
								return ports.dial(ctx, network, address)
							case <-ctx.Done():
								return nil, ctx.Err()
							}
						},
					})
					must(t, err)
					defer v.Close()
					votes[id] = v
				}
				votes[2].Send(1, notification(2, 1))
				time.Sleep(takes / 2) // of the bubble: the second begins before the first has a connection
				votes[1].Send(2, notification(1, 1))
				time.Sleep(time.Minute)
				if one, two := dials[1].Load(), dials[2].Load(); one+two > 10 {
					t.Errorf("a connection takes %v to open: in a minute server 1 dialed %d times and server 2 %d times", takes, one, two)
				}
			})
		})
	}
}

// A server of Apache's ends the incoming connection first, and dials after that.
func TestCrossingDialsEndWithAPeerThatEndsItsConnectionFirst(t *testing.T) {
	const takes = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ports, dials := pipes{}, atomic.Int64{}
		slowly := func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			t.Log(time.Now().Format("05.000"), address)
			select {
			case <-time.After(takes):
				return ports.dial(ctx, network, address)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		at := func(id quorum.ID) []peerwire.Address { return []peerwire.Address{{Host: "far", Port: uint16(id)}} }
		v, err := NewVotes(VotesOptions{
			ID: 1, Listener: tcpLike{ports.listen(1)}, Advertise: at(1), Addresses: at,
			Receive: func(quorum.ID, fle.Notification) {}, Logger: quiet, Dial: slowly,
		})
		must(t, err)
		defer v.Close()
		apache := ports.listen(2)
		defer apache.Close()
		hello, err := appendInitial(peerwire.Initial{Server: 2, Addresses: at(2)})
		must(t, err)
		go func() {
			for {
				conn, err := slowly(t.Context(), "tcp", "far:1")
				if err != nil {
					return
				}
				time.Sleep(takes / 2) // the way of what it says
				said := notification(2, 1)
				if _, err := conn.Write(peerwire.AppendNotification(bytes.Clone(hello), &said)); err != nil {
					return
				}
				go io.Copy(io.Discard, conn)
				context.AfterFunc(t.Context(), func() { conn.Close() })
				for knocked := false; !knocked; {
					knock, err := apache.Accept()
					if err != nil {
						return
					}
					_, err = readInitial(knock)
					knocked = err == nil
					knock.Close()
				}
				time.Sleep(takes / 2)
				time.AfterFunc(takes/2, func() { t.Log(time.Now().Format("05.000"), "close"); conn.Close() })
			}
		}()
		time.Sleep(takes / 2) // of the bubble: before the first has a connection
		v.Send(2, notification(1, 1))
		time.Sleep(time.Minute)
		if n := dials.Load(); n > 10 {
			t.Errorf("%d connections were dialed in a minute", n)
		}
	})
}
