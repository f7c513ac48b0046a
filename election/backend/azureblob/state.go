package azureblob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/tenures"
)

// state is the content of the lock's blob.
type state struct {
	// Token is that of the holder, or of the last one.
	Token election.Token `json:"token"`
	// Holder is the id of the leader, empty for none; Nonce is that of its claim. They
	// count only while there is a lease.
	Holder string `json:"holder,omitempty"`
	Nonce  string `json:"nonce,omitempty"`
	// Metadata is the holder's.
	Metadata []byte `json:"metadata,omitempty"`
	// History holds the latest leaderships, oldest first.
	History []election.Tenure `json:"history,omitempty"`
}

// lockSeen is the lock's blob as it was read.
type lockSeen struct {
	state  state
	etag   azcore.ETag
	leased bool
}

// errNotOurs is returned for a blob that another program has written.
var errNotOurs = errors.New("the blob is not of an election; use a prefix or a container of its own")

// readLock reads the state. An empty blob is an election that nobody has won.
func (b *Backend) readLock(ctx context.Context, name string) (lockSeen, error) {
	o := b.lock(name)
	s, err := o.read(ctx)
	if err != nil {
		return lockSeen{}, permanentIfNotOurs(err)
	}
	found := lockSeen{etag: s.etag, leased: s.leased}
	if len(s.data) == 0 {
		return found, nil
	}
	if err := json.Unmarshal(s.data, &found.state); err != nil || found.state.Token == 0 {
		return lockSeen{}, permanentIfNotOurs(o.explain("read", errNotOurs))
	}
	if found.state.Token >= math.MaxInt64 {
		return lockSeen{}, election.Permanent(o.explain("read", fmt.Errorf("it has the token %d, after which none is left; repair it", found.state.Token)))
	}
	return found, nil
}

func permanentIfNotOurs(err error) error {
	if errors.Is(err, errNotOurs) {
		return election.Permanent(err)
	}
	return err
}

// writeLock stores the state under a lease, if nobody has written since (azureblob-A3).
func (b *Backend) writeLock(ctx context.Context, name string, s state, etag azcore.ETag, id string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	token := strconv.FormatUint(uint64(s.Token), 10)
	return b.lock(name).write(ctx, data, etag, id, map[string]*string{"token": to.Ptr(token)})
}

// taken returns the state with the claim as holder, and with its new token (azureblob-A3).
func (s state) taken(claim election.Claim, now time.Time) state {
	token := max(s.Token+1, election.Token(max(0, now.UnixMilli())))
	return state{Token: token, Holder: claim.ID, Nonce: claim.Nonce, Metadata: claim.Metadata,
		History: tenures.Begin(s.History, claim.ID, token, now)}
}

// released returns the state without its holder.
func (s state) released(reason election.Reason, now time.Time) state {
	return state{Token: s.Token, History: tenures.End(s.History, s.Token, reason, now)}
}

// wall returns the wall clock, for people and as the minimum of tokens.
func wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
