package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// wiredClient is a client without a lasting session: whatever fails, it connects again.
type wiredClient struct {
	socket net.Conn
	xid    zk.Xid
}

const answerWithin = 3 * time.Second

func (w *ensembleStorm) connect(at int) (*wiredClient, error) {
	ctx, cancel := context.WithTimeout(w.stopped, answerWithin)
	defer cancel()
	socket, err := w.net.Dialer(clientMachine)(ctx, "tcp", bubble.Host(at)+":2181")
	if err != nil {
		return nil, err
	}
	_ = socket.SetDeadline(time.Now().Add(answerWithin))
	req := wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16), HasReadOnly: true}
	_, err = socket.Write(wire.AppendConnectRequest(nil, &req))
	if err == nil {
		_, err = readFrame(socket)
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return &wiredClient{socket: socket}, nil
}

func (c *wiredClient) do(r zk.Request) (zk.Code, zk.Result, error) {
	c.xid++
	r.Xid = c.xid
	_ = c.socket.SetDeadline(time.Now().Add(answerWithin))
	if _, err := c.socket.Write(wire.AppendRequest(nil, &r)); err != nil {
		return 0, zk.Result{}, err
	}
	frame, err := readFrame(c.socket)
	if err != nil {
		return 0, zk.Result{}, err
	}
	h, body, err := wire.DecodeReplyHeader(frame)
	if err != nil || h.Xid != c.xid {
		return 0, zk.Result{}, errors.Join(err, fmt.Errorf("a reply to %d, not to %d", h.Xid, c.xid))
	}
	if h.Code != zk.OK {
		return h.Code, zk.Result{}, nil
	}
	res, err := wire.DecodeResult(r.Op, len(body), body)
	return h.Code, res, err
}
