// Package azureblob elects with leases on blobs of Azure Storage.
//
// New makes a backend from the client of a container. An election is two block blobs:
//
//	NAME.lock   the candidate that holds its lease leads. Content: the last token, the
//	            holder and the history, as JSON; the token is in the metadata
//	            too. Only the holder of the lease can write it.
//	NAME.line   who is the successor, and what an operator has asked. Everybody
//	            writes it, on the condition that its ETag is the one read.
//
// What always holds:
//
//	azureblob-A1  Only the service's lease decides who leads. It lasts 15 to 60 seconds, is
//	              renewed every quarter of that, and runs out by the service's own clock.
//	azureblob-A2  The lease id is the nonce of the claim. Acquiring with the id that already has
//	              the lease renews it. So if an answer was lost, asking again gets it, and what a
//	              claim may have acquired can be released without knowing whether it has.
//	azureblob-A3  A token is higher than the one stored, and not less than the writer's wall clock
//	              in ms. It is stored under the lease, on the condition that nobody has written
//	              since, before it is handed out.
//	azureblob-A4  Requests are sent once and have a time limit: the SDK's retries would go on
//	              after the end of the lease, and a dead connection would block a candidate for
//	              ever. The caller tries again while it makes sense.
//	azureblob-A5  Handing over to a chosen candidate changes the id of the lease to that of its
//	              claim. At no moment could a third candidate acquire it.
//	azureblob-A6  The line has one place for the successor, which shows by a heartbeat that it
//	              still waits. Only the successor tries to acquire; a candidate with a higher
//	              priority takes its place. All others only read. If the place is empty, everybody
//	              tries.
//
// The service itself fences the lock's blob: a write with the id of a lease that is gone is
// refused (412), however late it comes, and so is one without an id while there is a lease.
// Everything else needs the token.
//
// The successor tries with pauses of Options.Poll. A lease that was released is free at once, and
// one whose holder is gone when it has run out. If the successor is gone too, others follow when
// its heartbeat has stalled for its lease. Break ends a lease on behalf of an operator: renewals
// fail from then on, and others are kept out for the rest of the lease, by when the holder has
// stopped. Breaking it with a shorter period, as other tools can, or deleting the blob removes
// this safety: the next leader may begin while the last one still leads, and only tokens
// distinguish them.
package azureblob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// LeaseMin and LeaseMax are the shortest and the longest lease that the service grants. A longer
// one becomes LeaseMax.
const (
	LeaseMin = 15 * time.Second
	LeaseMax = 60 * time.Second
)

// PrefixDefault is the default folder of the elections.
const PrefixDefault = "elections"

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Prefix is the folder of the elections in the container, without a slash
	// at either end. Default PrefixDefault.
	Prefix string
	// Poll is the pause between two tries of a waiter, and between two polls of an observer, give
	// or take a tenth. Default a fifth of the lease: 3 to 12 s.
	Poll time.Duration
}

// Backend is a container of elections.
type Backend struct {
	container *container.Client
	options   Options
	now       func() clock.Instant

	mu     sync.Mutex
	claims map[string]*claimed // by nonce, from Acquire to Release
}

var (
	_ election.Nominator = (*Backend)(nil)
	_ election.Operator  = (*Backend)(nil)
)

// claimed is what this process knows about one claim.
type claimed struct {
	// stop ends the background work for this claim.
	stop context.CancelFunc
	// left is when the first release failed, 0 for never. The Backend's mutex
	// guards it.
	left clock.Instant

	mu sync.Mutex
	// unknown: a write of the line was sent and got no answer. It may still take effect, as
	// long as the line has the ETag that it expects.
	unknown bool
	// next is when the successor was last seen alive.
	next mark
	// rival and request are as the line was last read.
	rival   string
	request *election.Request
}

// New returns a backend on the container, which must exist. It does no I/O; the
// client has nothing to close.
func New(client *container.Client, options Options) (*Backend, error) {
	options.Prefix = cmp.Or(options.Prefix, PrefixDefault)
	switch {
	case client == nil:
		return nil, errors.New("azureblob: no client")
	case strings.HasPrefix(options.Prefix, "/") || strings.HasSuffix(options.Prefix, "/") ||
		strings.Contains(options.Prefix, "//"):
		return nil, fmt.Errorf("azureblob: prefix %q: write it without slashes at its ends and without empty parts",
			options.Prefix)
	case options.Poll < 0:
		return nil, fmt.Errorf("azureblob: poll %v: must not be negative", options.Poll)
	}
	return &Backend{container: client, options: options, now: clock.Now, claims: make(map[string]*claimed)}, nil
}

// Traits returns what the store promises and what it depends on.
func (b *Backend) Traits() election.Traits {
	return election.Traits{Name: "azureblob", Exclusive: true, Expires: true, Waiters: true, LeaseMin: LeaseMin,
		Guarantees: election.Guarantees{
			Failover: "within a region none: an answered request is kept in three copies, and leases go with " +
				"the blob. A failover of the account to its secondary region may lose the last lease and token: " +
				"two may lead for a lease, but tokens still grow",
			Clocks: "rates of the service's clock and the holder's within Options.ClockDriftPercent (5 %); wall clocks do not matter",
			Token: "the lock's blob, and not less than the writer's wall clock in ms: grows across deletion and " +
				"restore while the clocks of two writers differ by less than the time between their grants",
			Renewal: "1 lease request and 1 read, four in a lease: with 60 s about $0.1 a month at $0.4 per million, with 15 s $0.6",
			Waiting: "1 read per poll: about $0.1 to $0.4 a month. The successor also asks for the lease with each poll and " +
				"writes three times in a lease, at $5 per million: $0.9 to $3 a month",
			Notice: "poll every fifth of the lease (3 s to 12 s), or Options.Poll",
		}}
}

// Break ends the current lease on behalf of an operator: the holder cannot renew it, and it is
// free after the rest of its time, by when the holder has stopped. Break returns how long that
// is, or ErrNoLeader if there is no lease.
func (b *Backend) Break(ctx context.Context, name string) (time.Duration, error) {
	left, err := b.lock(name).breakLease(ctx)
	if isCode(err, codesNoLease...) {
		err = election.ErrNoLeader
	}
	if err != nil {
		return 0, b.fail("break the lease of", name, err)
	}
	return left, nil
}

// leaseOf returns the lease that the service grants: whole seconds, within its limits.
func leaseOf(claim election.Claim) time.Duration {
	return min(max(claim.Lease.Truncate(time.Second), LeaseMin), LeaseMax)
}

// pollOf returns the pause between two attempts.
func (b *Backend) pollOf(lease time.Duration) time.Duration {
	return cmp.Or(b.options.Poll, lease/5)
}

func (b *Backend) claimed(nonce string) *claimed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[nonce]
}

// leftLate records that a release has failed. The caller may try again; if it does not, the
// lease runs out and nothing is left to release.
func (b *Backend) leftLate(c *claimed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.left == 0 {
		c.left = b.now()
	}
}

// sweep removes the claims whose lease has run out. The caller holds the mutex.
func (b *Backend) sweep() {
	now := b.now()
	maps.DeleteFunc(b.claims, func(_ string, c *claimed) bool { return c.left != 0 && now.Sub(c.left) > 2*LeaseMax })
}

// fail says what was being done, and for which election.
func (b *Backend) fail(what, name string, err error) error {
	return fmt.Errorf("azureblob: %s %q: %w", what, name, err)
}
