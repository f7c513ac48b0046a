package peerwire

import (
	"encoding/binary"
	"errors"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/sasl"
)

// ProofStatus is the state of an exchange of proofs between servers.
type ProofStatus int32

// The statuses of ZooKeeper's QuorumAuth.
const (
	ProofGoesOn  ProofStatus = 0
	ProofHolds   ProofStatus = 1
	ProofRefused ProofStatus = -1
)

// A proof begins with a number that nothing else on either port begins with: it is
// neither a valid frame length nor a valid packet type.
const proofMark int64 = 0x5f2435013501edcc

// ProofMarkBytes is how many bytes it takes to recognize a proof.
const ProofMarkBytes = 8

// ProofHeadBytes is the number of bytes before the token of a proof.
const ProofHeadBytes = ProofMarkBytes + 8

// ErrProof says that the bytes are not a proof.
var ErrProof = errors.New("peerwire: not a proof of who a server is")

// AppendProof appends a token with its head; nil is a null token.
func AppendProof(b []byte, status ProofStatus, token []byte) []byte {
	b = jute.AppendLong(b, proofMark)
	b = jute.AppendInt(b, int32(status))
	return jute.AppendBytes(b, token)
}

// IsProof reports whether the first ProofMarkBytes of something begin a proof.
func IsProof(b []byte) bool {
	return len(b) >= ProofMarkBytes && int64(binary.BigEndian.Uint64(b)) == proofMark
}

// DecodeProofHead reads the head of a proof: how many bytes of a token follow.
func DecodeProofHead(b []byte) (status ProofStatus, tokenBytes int, err error) {
	if len(b) < ProofHeadBytes || !IsProof(b) {
		return 0, 0, ErrProof
	}
	status = ProofStatus(binary.BigEndian.Uint32(b[ProofMarkBytes:]))
	n := int32(binary.BigEndian.Uint32(b[ProofMarkBytes+4:]))
	if n < -1 || n > sasl.TokenBytesMax {
		return 0, 0, ErrProof
	}
	return status, max(int(n), 0), nil
}
