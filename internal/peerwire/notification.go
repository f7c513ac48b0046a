package peerwire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A frame of the election port is an int32 length and that many bytes, a
// notification:
//
//	 0  int32  state
//	 4  int64  leader
//	12  int64  zxid
//	20  int64  round
//	28  int64  epoch of the vote       not in the oldest form, which ends here
//	36  int32  version                 0 in a form of exactly 40 bytes
//	40  int32  length of the text      version 2
//	44  bytes configuration then a proposed configuration, each line a comment
const (
	notificationOldest = 28
	notificationShort  = 40
	versionWithConfig  = 2
)

// ElectionFrameMax is the longest frame on an election port.
const ElectionFrameMax = 512 * 1024

// ErrElectionFrame is the class of invalid frame lengths: the caller closes the
// connection.
var ErrElectionFrame = errors.New("peerwire: bad frame length on the election port")

// ErrNotification is the class of frames that are not a notification. They are
// ignored, and the connection stays open (ZOOKEEPER-3769).
var ErrNotification = errors.New("peerwire: bad notification")

// ElectionFrameLength reads the length of a frame from its first 4 bytes, and
// checks it. b has at least 4 bytes.
func ElectionFrameLength(b []byte) (int, error) {
	d := jute.NewDecoder(b, 0)
	n := int(d.Int())
	if int64(n) == proofMark>>32 {
		return 0, fmt.Errorf("%w: the peer proves by SASL who it is, and this server does not ask: "+
			"quorum.auth.enableSasl is not the same on all servers", ErrElectionFrame)
	}
	if n <= 0 || n > ElectionFrameMax || d.Err() != nil {
		return 0, fmt.Errorf("%w: %d, want 1 to %d", ErrElectionFrame, n, ElectionFrameMax)
	}
	return n, nil
}

// AppendNotification appends a frame. Without a configuration it uses the form
// of 40 bytes, because a version 2 whose text cannot be parsed stops the
// receiving thread of a Java server for good. If the frame would be too long,
// it leaves out the proposed configuration first, then the other: the vote
// matters more.
func AppendNotification(b []byte, n *fle.Notification) []byte {
	length, config := notificationShort, n.Config
	if config != "" {
		if proposed := asComment(n.Proposed); length+4+len(config)+len(proposed) <= ElectionFrameMax {
			config += proposed
		}
		if length += 4 + len(config); length > ElectionFrameMax {
			short := *n
			short.Config, short.Proposed = "", ""
			return AppendNotification(b, &short)
		}
	}
	b = jute.AppendInt(b, int32(length))
	b = jute.AppendInt(b, int32(n.State))
	b = jute.AppendLong(b, int64(n.Leader))
	b = jute.AppendLong(b, int64(n.Zxid))
	b = jute.AppendLong(b, n.Round)
	b = jute.AppendLong(b, n.Epoch)
	if n.Config == "" {
		return jute.AppendInt(b, 1) // as 3.4.6; the reader looks only at the length
	}
	b = jute.AppendInt(b, versionWithConfig)
	return jute.AppendString(b, config)
}

// asComment returns a proposed configuration in the form in which it follows
// the one in force: each line is a comment, which Apache's servers ignore.
func asComment(text string) string {
	if text == "" {
		return ""
	}
	return "\n#" + strings.ReplaceAll(text, "\n", "\n#")
}

// splitProposed reverses asComment: it separates the configuration in force from the proposed one.
func splitProposed(text string) (config, proposed string) {
	config, proposed, _ = strings.Cut(text, "\n#")
	return config, strings.ReplaceAll(proposed, "\n#", "\n")
}

// DecodeNotification reads a frame without its length.
func DecodeNotification(b []byte) (fle.Notification, error) {
	d := jute.NewDecoder(b, ElectionFrameMax)
	var n fle.Notification
	n.State = fle.State(d.Int())
	n.Leader = quorum.ID(d.Long())
	n.Zxid = zk.Zxid(d.Long())
	n.Round = d.Long()
	switch {
	case d.Err() != nil, len(b) > notificationOldest && len(b) < notificationShort:
		return fle.Notification{}, fmt.Errorf("%w: %d bytes", ErrNotification, len(b))
	case n.State < fle.Looking || n.State > fle.Observing:
		return fle.Notification{}, fmt.Errorf("%w: state %d", ErrNotification, n.State)
	case len(b) == notificationOldest:
		n.Epoch = int64(n.Zxid) >> 32
		return n, nil
	}
	n.Epoch = d.Long()
	if len(b) == notificationShort {
		return n, nil
	}
	n.Version = d.Int()
	if n.Version >= versionWithConfig {
		n.Config, n.Proposed = splitProposed(d.StringNotNull())
		n.ConfigVersion, n.ProposedVersion = ConfigVersion(n.Config), ConfigVersion(n.Proposed)
	}
	if err := d.Err(); err != nil {
		return fle.Notification{}, fmt.Errorf("%w: %w", ErrNotification, err)
	}
	return n, nil
}

// ConfigVersion returns the version in the text of a configuration: the line
// "version=" with a number in hex. It returns 0 for a configuration that never
// went through the ensemble and for a text without a readable version: neither
// is newer than any other (ZOOKEEPER-1783).
func ConfigVersion(text string) int64 {
	for line := range strings.SplitSeq(text, "\n") {
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "version="); ok {
			version, err := strconv.ParseInt(strings.TrimSpace(digits), 16, 64)
			if err != nil || version < 0 {
				return 0
			}
			return version
		}
	}
	return 0
}
