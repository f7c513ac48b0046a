package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// A server whose log cannot be truncated needs the whole state until it has it, even if the
// connection on which it came has broken. Otherwise the next leader would make it truncate
// again, in vain, and that whole role would be lost.
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
