package wire

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// ConnectRequest is the first frame of a connection: a new session, or an old
// one with its id and password.
type ConnectRequest struct {
	LastZxidSeen zk.Zxid
	TimeoutMs    int32
	Session      zk.SessionID // 0 for a new one
	Password     []byte       // 16 bytes; may be empty for a new session
	ReadOnly     bool
	HasReadOnly  bool // the request had the byte; the reply has it if and only if the request does
}

// ConnectResponse is the server's answer. All zero means that the session was
// refused or has expired.
type ConnectResponse struct {
	TimeoutMs   int32
	Session     zk.SessionID
	Password    zk.Password
	ReadOnly    bool
	HasReadOnly bool
}

// DecodeConnectRequest reads the payload of a first frame.
func DecodeConnectRequest(payload []byte) (ConnectRequest, error) {
	d := jute.NewDecoder(payload, len(payload))
	d.Int() // protocolVersion, ignored
	r := ConnectRequest{
		LastZxidSeen: zk.Zxid(d.Long()),
		TimeoutMs:    d.Int(),
		Session:      zk.SessionID(d.Long()),
		Password:     d.Bytes(),
	}
	if d.Err() == nil && d.Len() > 0 {
		r.ReadOnly, r.HasReadOnly = d.Bool(), true
	}
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("wire: connect request: %w", err)
	}
	return r, nil
}

// AppendConnectRequest appends the frame of r.
func AppendConnectRequest(b []byte, r *ConnectRequest) []byte {
	b, start := beginFrame(b)
	b = jute.AppendInt(b, 0)
	b = jute.AppendLong(b, int64(r.LastZxidSeen))
	b = jute.AppendInt(b, r.TimeoutMs)
	b = jute.AppendLong(b, int64(r.Session))
	b = jute.AppendBytes(b, r.Password)
	if r.HasReadOnly {
		b = jute.AppendBool(b, r.ReadOnly)
	}
	return endFrame(b, start)
}

// AppendConnectResponse appends the frame of r.
func AppendConnectResponse(b []byte, r *ConnectResponse) []byte {
	b, start := beginFrame(b)
	b = jute.AppendInt(b, 0)
	b = jute.AppendInt(b, r.TimeoutMs)
	b = jute.AppendLong(b, int64(r.Session))
	b = jute.AppendBytes(b, r.Password[:])
	if r.HasReadOnly {
		b = jute.AppendBool(b, r.ReadOnly)
	}
	return endFrame(b, start)
}

// DecodeConnectResponse reads the payload of a server's first frame.
func DecodeConnectResponse(payload []byte) (ConnectResponse, error) {
	d := jute.NewDecoder(payload, len(payload))
	d.Int()
	r := ConnectResponse{TimeoutMs: d.Int(), Session: zk.SessionID(d.Long())}
	password := d.Bytes()
	if d.Err() == nil && d.Len() > 0 {
		r.ReadOnly, r.HasReadOnly = d.Bool(), true
	}
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("wire: connect response: %w", err)
	}
	if len(password) != zk.PasswordBytes {
		return r, fmt.Errorf("wire: connect response: password of %d bytes, want %d", len(password), zk.PasswordBytes)
	}
	copy(r.Password[:], password)
	return r, nil
}
