package login

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The messages of a context that begin with a header (RFC 4121, section 4.1).
var (
	apReq = [2]byte{1, 0}
	apRep = [2]byte{2, 0}
)

// mechanism is the encoded object identifier of Kerberos.
var mechanism = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// wrapped puts the header in front of a message (RFC 2743, section 3.1).
func wrapped(kind [2]byte, message []byte) []byte {
	n := len(mechanism) + len(kind) + len(message)
	b := []byte{0x60}
	switch {
	case n < 0x80:
		b = append(b, byte(n))
	case n < 0x100:
		b = append(b, 0x81, byte(n))
	case n < 0x10000:
		b = append(b, 0x82, byte(n>>8), byte(n))
	default:
		b = append(b, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	b = append(b, mechanism...)
	b = append(b, kind[:]...)
	return append(b, message...)
}

var errToken = errors.New("it is not a Kerberos token")

// unwrapped takes the header off.
func unwrapped(kind [2]byte, token []byte) ([]byte, error) {
	if len(token) < 2 || token[0] != 0x60 {
		return nil, errToken
	}
	n, rest := int(token[1]), token[2:]
	if n >= 0x80 {
		digits := n & 0x7f
		if digits == 0 || digits > 3 || len(rest) < digits {
			return nil, errToken
		}
		n = 0
		for _, b := range rest[:digits] {
			n = n<<8 | int(b)
		}
		rest = rest[digits:]
	}
	head := append(bytes.Clone(mechanism), kind[:]...)
	if n != len(rest) || !bytes.HasPrefix(rest, head) {
		return nil, errToken
	}
	return rest[len(head):], nil
}

// The flags of a sealed message, and the key usage numbers.
const (
	byAcceptor     = 1
	confidential   = 2
	acceptorSubkey = 4

	acceptorSeals  = 22
	initiatorSeals = 24
)

const sealHeader = 16

// sealed builds a message that is integrity-protected but not encrypted (RFC 4121,
// section 4.2.4).
func sealed(key types.EncryptionKey, flags byte, number uint64, text []byte) ([]byte, error) {
	sum, err := checksum(key, flags, number, text)
	if err != nil {
		return nil, err
	}
	b := sealHead(flags, number)
	binary.BigEndian.PutUint16(b[4:], uint16(len(sum)))
	b = append(b, text...)
	return append(b, sum...), nil
}

func sealHead(flags byte, number uint64) []byte {
	b := make([]byte, sealHeader, 64)
	b[0], b[1], b[2], b[3] = 5, 4, flags, 0xff
	binary.BigEndian.PutUint64(b[8:], number)
	return b
}

// checksum returns the checksum of a message from the side that the flags name.
func checksum(key types.EncryptionKey, flags byte, number uint64, text []byte) ([]byte, error) {
	kind, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	use := uint32(initiatorSeals)
	if flags&byAcceptor != 0 {
		use = acceptorSeals
	}
	return kind.GetChecksumHash(key.KeyValue, append(bytes.Clone(text), sealHead(flags, number)...), use)
}

// unsealed returns the text of a message from the side that the flag names.
func unsealed(key types.EncryptionKey, side byte, token []byte) ([]byte, error) {
	if len(token) < sealHeader || token[0] != 5 || token[1] != 4 || token[3] != 0xff || token[2]&byAcceptor != side {
		return nil, errToken
	}
	if token[2]&confidential != 0 {
		return nil, errors.New("the message is encrypted, which was not agreed")
	}
	length, turn := int(binary.BigEndian.Uint16(token[4:])), int(binary.BigEndian.Uint16(token[6:]))
	number, body := binary.BigEndian.Uint64(token[8:]), bytes.Clone(token[sealHeader:])
	if len(body) < length {
		return nil, errToken
	}
	if len(body) > 0 {
		turn %= len(body)
		body = append(body[turn:], body[:turn]...)
	}
	text := body[:len(body)-length]
	want, err := checksum(key, token[2], number, text)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(want, body[len(text):]) {
		return nil, errors.New("the message was changed in transit")
	}
	return text, nil
}

// The last messages agree on the protection of what follows (RFC 4752, section 3.1):
// none, so no further messages are accepted.
var noLayer = []byte{1, 0, 0, 0}

// strong refuses old encryption types, for a ticket and for each key: their messages
// have a different form, and a ticket is only as strong as the weakest of them.
func strong(types ...int32) error {
	const oldest, newest = 17, 20 // aes128-cts-hmac-sha1-96 to aes256-cts-hmac-sha384-192
	for _, t := range types {
		if t < oldest || t > newest {
			return fmt.Errorf("the ticket, or a key with it, has encryption type %d: use AES, types 17 to 20", t)
		}
	}
	return nil
}
