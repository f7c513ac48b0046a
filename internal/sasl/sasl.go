// Package sasl carries out the exchanges by which two sides of a connection prove who
// they are: tokens go back and forth until one side knows. The caller transports the
// tokens. The mechanism DIGEST-MD5 (RFC 2831) is here; GSSAPI, for which a Kerberos
// library is needed, is in the command.
package sasl

// Exchange is one side of one exchange. It must not be used by several goroutines.
type Exchange interface {
	// Next takes a token of the other side. It returns the token to send, nil for none,
	// and whether this side is done. An error ends the exchange: the other side has not
	// proved who it is. The text of the error is for a log, not for the other side.
	Next(token []byte) (answer []byte, done bool, err error)
}

// Server is the side that learns who the other one is.
type Server interface {
	Exchange
	// Names returns the name that the other side has proved, and the name under which it
	// wants to act, which often is the same. Both are "" before the exchange is done.
	Names() (proved, acts string)
}

// Client is the side that proves who it is.
type Client interface {
	Exchange
	// First reports whether this side begins with a token of its own. Otherwise it
	// sends an empty token, and Next takes the answer.
	First() bool
}

// TokenBytesMax is the longest token that is accepted. Kerberos tokens with the group
// memberships of a Windows domain take up to 64 KiB.
const TokenBytesMax = 128 << 10
