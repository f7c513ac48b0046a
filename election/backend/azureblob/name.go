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

// blobOf returns the name of an election's blob: the election's name with everything but
// letters, digits and -_.~ written as %XX, so that no election is the folder of another.
func (b *Backend) blobOf(name, suffix string) string {
	return b.options.Prefix + "/" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20") + suffix
}

// nameOf is the inverse for locks; it returns false for other blobs.
func (b *Backend) nameOf(blob string) (string, bool) {
	text, ours := strings.CutPrefix(blob, b.options.Prefix+"/")
	text, isLock := strings.CutSuffix(text, lockSuffix)
	name, err := url.PathUnescape(text)
	return name, ours && isLock && err == nil && b.blobOf(name, lockSuffix) == blob
}

// leaseID returns the lease id of a claim (azureblob-A2): the nonce, with its digits
// grouped as the service requires.
func leaseID(nonce string) string {
	if len(nonce) != 32 {
		return nonce // not from an Elector; the service will report an error
	}
	return strings.Join([]string{nonce[:8], nonce[8:12], nonce[12:16], nonce[16:20], nonce[20:]}, "-")
}

func idOf(claim election.Claim) string { return leaseID(claim.Nonce) }
