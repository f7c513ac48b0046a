package peerwire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/quorum"
)

// The initial message, from the dialing server to the accepting one, once:
//
//	int64  version   -65536 one address, -65535 several; >= 0 is a server's
//	                 number in the form of ZooKeeper 3.4, and nothing follows
//	int64  server
//	int32  length    1 to 2048
//	bytes  address   host:port of the sender's election port; several joined by |
const (
	initialOne     = -65536
	initialSeveral = -65535
	addressMax     = 2048
	initialHead    = 20
)

// InitialBytesMax is the longest initial message.
const InitialBytesMax = initialHead + addressMax

// NoID is the number under which an observer without one presents itself.
// The accepting server gives it a negative number; NoID itself names nobody.
const NoID quorum.ID = math.MaxInt64

// Address is where a server listens.
type Address = ensemble.Address

// Initial is the first message of a connection to the election port.
type Initial struct {
	Server quorum.ID
	// Addresses are where the sender can be dialed. Empty if the sender uses
	// the form of 3.4 or named only wildcards: then the addresses are those in
	// the configuration (ZOOKEEPER-2164).
	Addresses []Address
}

// AppendInitial appends an initial message. With one address it has the form
// that every peer since 3.5 reads (ZOOKEEPER-3720); several need 3.6. Write it
// in a single call: Apache reads it with a single read.
func AppendInitial(b []byte, in Initial) ([]byte, error) {
	texts := make([]string, len(in.Addresses))
	for i, a := range in.Addresses {
		texts[i] = a.String()
	}
	text := strings.Join(texts, "|")
	if text == "" || len(text) > addressMax {
		return b, fmt.Errorf("peerwire: addresses of %d bytes are not 1 to %d", len(text), addressMax)
	}
	version := int64(initialOne)
	if len(texts) > 1 {
		version = initialSeveral
	}
	b = jute.AppendLong(b, version)
	b = jute.AppendLong(b, int64(in.Server))
	return jute.AppendString(b, text), nil
}

// ErrInitial is the class of invalid initial messages: the caller closes the
// connection.
var ErrInitial = errors.New("peerwire: bad initial message")

// InitialBytes returns the length of the initial message at the start of b.
// While whole is false, it needs at least n bytes to say more, where len(b) < n
// <= InitialBytesMax.
func InitialBytes(b []byte) (n int, whole bool, err error) {
	if len(b) < 8 {
		return 8, false, nil
	}
	d := jute.NewDecoder(b, 0)
	switch version := d.Long(); {
	case version >= 0:
		return 8, true, nil
	case version != initialOne && version != initialSeveral:
		return 0, false, fmt.Errorf("%w: unknown version %d", ErrInitial, version)
	case len(b) < initialHead:
		return initialHead, false, nil
	}
	d.Long()
	length := int(d.Int())
	if length < 1 || length > addressMax {
		return 0, false, fmt.Errorf("%w: address of %d bytes", ErrInitial, length)
	}
	n = initialHead + length
	return n, len(b) >= n, nil
}

// DecodeInitial reads a whole initial message.
func DecodeInitial(b []byte) (Initial, error) {
	n, whole, err := InitialBytes(b)
	if err != nil {
		return Initial{}, err
	}
	if !whole || n != len(b) {
		return Initial{}, fmt.Errorf("%w: %d bytes, want %d", ErrInitial, len(b), n)
	}
	d := jute.NewDecoder(b, 0)
	version := d.Long()
	if version >= 0 {
		return Initial{Server: quorum.ID(version)}, nil
	}
	in := Initial{Server: quorum.ID(d.Long())}
	text := d.String()
	if version == initialOne && strings.Contains(text, "|") {
		return Initial{}, fmt.Errorf("%w: several addresses %q in the form for one", ErrInitial, text)
	}
	for part := range strings.SplitSeq(text, "|") {
		address, err := parseAddress(part)
		if err != nil {
			return Initial{}, err
		}
		if !address.Wildcard() {
			in.Addresses = append(in.Addresses, address)
		}
	}
	return in, d.Err()
}

// parseAddress reads host:port or [host]:port.
func parseAddress(text string) (Address, error) {
	at := strings.LastIndexByte(text, ':')
	if at <= 0 {
		return Address{}, fmt.Errorf("%w: %q is not host:port", ErrInitial, text)
	}
	host := text[:at]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return Address{}, fmt.Errorf("%w: %q lacks a bracket", ErrInitial, text)
		}
	} else if strings.Contains(host, ":") {
		return Address{}, fmt.Errorf("%w: %q needs brackets", ErrInitial, text)
	}
	port, err := strconv.ParseUint(text[at+1:], 10, 16)
	if err != nil || port == 0 || host == "" || strings.ContainsAny(host, "[]| \x00") {
		return Address{}, fmt.Errorf("%w: %q is not host:port", ErrInitial, text)
	}
	return Address{Host: host, Port: uint16(port)}, nil
}
