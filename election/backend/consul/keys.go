package consul

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// sideRoot is below which all but the locks are.
const sideRoot = "conclave/elections/"

// escaper makes one segment of a name, and unescaper a name again.
var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescaper = strings.NewReplacer("%2F", "/", "%25", "%")
)

func (b *Backend) lockKey(name string) string {
	return b.options.Prefix + name + "/" + api.DefaultSemaphoreKey
}
func (b *Backend) root() string { return b.options.Prefix + sideRoot }
func (b *Backend) side(name string) string {
	return b.root() + escaper.Replace(name) + "/"
}
func (b *Backend) lineKeys(name string) string   { return b.side(name) + "line/" }
func (b *Backend) requestKey(name string) string { return b.side(name) + "request" }
func (b *Backend) historyKey(name string) string { return b.side(name) + "history" }

// ticketKey is that of a candidate in line. The priority is a segment of its
// own, so that a list of the segments tells the highest one.
func (b *Backend) ticketKey(claim election.Claim) string {
	return fmt.Sprintf("%s%04d/%s", b.lineKeys(claim.Election), claim.Priority, claim.Nonce)
}

// priorityOf reads the priority out of a key, or a segment, of the line.
func (b *Backend) priorityOf(name, key string) int {
	segment, _, _ := strings.Cut(strings.TrimPrefix(key, b.lineKeys(name)), "/")
	priority, err := strconv.Atoi(segment)
	if err != nil {
		return 0
	}
	return priority
}

// holder is the value of a lock that one of our candidates holds.
type holder struct {
	ID    string    `json:"leader"`
	Since time.Time `json:"since"`
}

func (h holder) encode() []byte { return encode(h) }

// decodeHolder returns false for the value of another program.
func decodeHolder(value []byte) (h holder, ours bool) {
	return h, json.Unmarshal(value, &h) == nil && h.ID != ""
}

// ticket is the value of a candidate's key in line.
type ticket struct {
	ID string `json:"id"`
	// Round is set by a holder that nominates the candidate, and differs
	// between any two nominations. State is what the candidate says to it.
	Round string `json:"round,omitempty"`
	State string `json:"state,omitempty"`
	Error string `json:"error,omitempty"`

	key      string
	session  string
	modified uint64
}

// States of a nominee.
const (
	stateReady  = "ready"
	stateFailed = "failed"
)

func (t ticket) encode() []byte { return encode(t) }

// decodeTicket reads a pair of the line. A damaged value has no id.
func decodeTicket(pair *api.KVPair) (t ticket) {
	_ = json.Unmarshal(pair.Value, &t)
	t.key, t.session, t.modified = pair.Key, pair.Session, pair.ModifyIndex
	return t
}

// change writes the ticket if it has not been written since.
func (t ticket) change() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: t.key, Value: t.encode(), Index: t.modified}
}

// encode writes a plain struct of strings and times, which cannot fail.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return text
}
