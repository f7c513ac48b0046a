package migrate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Digests are the tree digests that a server remembers, by zxid: those of every 128th
// transaction.
type Digests map[uint64]uint64

// DigestEvery is the number that divides the zxids whose digests servers remember.
const DigestEvery = 128

// ParseHash parses the answer to the four-letter word hash: lines "<zxid in hex>: <digest>".
func ParseHash(text string) Digests {
	all := Digests{}
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), ": ")
		zxid, err := strconv.ParseUint(left, 16, 64)
		if digest, is := parseDigest(right); ok && err == nil && is {
			all[zxid] = digest
		}
	}
	return all
}

// ParseHashJSON parses the answer of an admin server to the command hash.
func ParseHashJSON(text []byte) (Digests, error) {
	var answer struct {
		Digests []struct {
			Zxid   json.Number `json:"zxid"`
			Digest json.Number `json:"digest"`
		} `json:"digests"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("the answer to hash: %w", err)
	}
	all := Digests{}
	for _, one := range answer.Digests {
		zxid, err := strconv.ParseUint(one.Zxid.String(), 10, 64)
		if digest, is := parseDigest(one.Digest.String()); err == nil && is {
			all[zxid] = digest
		}
	}
	return all, nil
}

// parseDigest reads 64 bits, which Java prints with a sign.
func parseDigest(text string) (uint64, bool) {
	if signed, err := strconv.ParseInt(text, 10, 64); err == nil {
		return uint64(signed), true
	}
	unsigned, err := strconv.ParseUint(text, 10, 64)
	return unsigned, err == nil
}

// Compared is the result of comparing the digests of two servers: for how many zxids
// both remember one, and the first zxid at which they differ, 0 if there is none.
type Compared struct {
	Equal   int
	Last    uint64 // of those that are equal
	Differs uint64
}

// Compare compares the digests of zxids above after. Up to that zxid a server may have
// computed digests on a snapshot that already contained some of the later transactions.
func Compare(a, b Digests, after uint64) (c Compared) {
	for zxid, digest := range a {
		other, both := b[zxid]
		switch {
		case !both || zxid <= after:
		case other == digest:
			c.Equal, c.Last = c.Equal+1, max(c.Last, zxid)
		case c.Differs == 0 || zxid < c.Differs:
			c.Differs = zxid
		}
	}
	return c
}
