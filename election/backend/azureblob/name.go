package azureblob

import (
	"net/url"
	"strings"

	"github.com/conclave-project/conclave/election"
)

const (
	lockSuffix = ".lock"
	lineSuffix = ".line"
)

// blobOf returns the name of a blob of an election: the election's name with
// everything but letters, digits and -_.~ as %XX, so that no election is the
// folder of another.
func (b *Backend) blobOf(name, suffix string) string {
	return b.options.Prefix + "/" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20") + suffix
}

// nameOf is the inverse for locks; false for blobs that are none.
func (b *Backend) nameOf(blob string) (string, bool) {
	text, ours := strings.CutPrefix(blob, b.options.Prefix+"/")
	text, isLock := strings.CutSuffix(text, lockSuffix)
	name, err := url.PathUnescape(text)
	return name, ours && isLock && err == nil && b.blobOf(name, lockSuffix) == blob
}

// leaseID returns the id of the lease of a claim (azureblob-A2): the service wants its
// digits in groups.
func leaseID(nonce string) string {
	if len(nonce) != 32 {
		return nonce // not of an Elector; the service says what it thinks of it
	}
	return strings.Join([]string{nonce[:8], nonce[8:12], nonce[12:16], nonce[16:20], nonce[20:]}, "-")
}

func idOf(claim election.Claim) string { return leaseID(claim.Nonce) }
