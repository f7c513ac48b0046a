package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// A server whose log cannot be cut needs the whole state until it has it, also if the connection on which that
// came has broken off: the next leader would have it cut again, in vain, and all of that role is lost.
func TestSnapshotIsNeededUntilItHasCome(t *testing.T) {
	var own trust
	own.leave(&zab.Effect{Kind: zab.EffectLeave, Reason: zab.ReasonCannotTruncate, Reload: true}, 1)
	own.leave(&zab.Effect{Kind: zab.EffectLeave, Reason: zab.ReasonLinkLost, Reload: true}, 2)
	if !own.wantsSnapshot() {
		t.Error("it is forgotten that the log cannot be cut")
	}
	own.synchronized()
	own.leave(&zab.Effect{Kind: zab.EffectLeave, Reason: zab.ReasonLinkLost, Reload: true}, 3)
	if own.wantsSnapshot() {
		t.Error("a snapshot is asked for that has come")
	}
}
