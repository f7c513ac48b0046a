package server

import (
	"bytes"
	"testing"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// TestIdentitiesOfAConnectionHaveALimitInBytes: a follower sends all of them to the
// leader with each write, which ends the link if they are more than it takes.
func TestIdentitiesOfAConnectionHaveALimitInBytes(t *testing.T) {
	p := dial(t, start(t, vfs.NewMem(), nil), nil)
	prove := func(user byte) zk.Code {
		credential := append(bytes.Repeat([]byte{user}, identityBytesMax*2/3), ":x"...)
		code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: credential})
		return code
	}
	if code := prove('a'); code != zk.OK {
		t.Errorf("the first: %v", code)
	}
	if code := prove('b'); code != zk.ErrAuthFailed {
		t.Errorf("the second: %v", code)
	}
	if identityBytesMax+identitiesMax*16 > peerwire.AuthBytesMax {
		t.Error("a packet takes less than a connection may prove")
	}
}
