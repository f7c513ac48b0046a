// Package sasl carries out the exchanges by which two sides of a connection prove who
// they are: tokens go back and forth until one side knows. How a token travels is its
// user's business. The mechanism DIGEST-MD5 (RFC 2831) is here; GSSAPI, for which a
// Kerberos library is needed, is in the command.
package sasl

// Exchange is one side of one exchange. It is for one goroutine.
type Exchange interface {
	// Next takes what the other side has said, and returns what to say, nil for nothing,
	// and whether this side needs no more. An error ends the exchange: the other side has
	// not proved who it is, and the text is for a log, not for the other side.
	Next(token []byte) (answer []byte, done bool, err error)
}

// Server is the side that learns who the other one is.
type Server interface {
	Exchange
	// Names returns the name that the other side has proved, and that under which it wants
	// to act, which often is the same. Both are "" before the exchange is done.
	Names() (proved, acts string)
}

// Client is the side that proves who it is.
type Client interface {
	Exchange
	// First reports whether this side begins with a token; else it sends an empty one,
	// and Next takes the answer.
	First() bool
}

// TokenBytesMax is the longest token that is taken: Kerberos' with the group memberships
// of a Windows domain have up to 64 KiB.
const TokenBytesMax = 128 << 10
