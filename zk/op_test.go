package zk

import (
	"slices"
	"testing"
)

// Every operation that has a name is known to clients, except those that only
// servers use.
func TestKnownOperations(t *testing.T) {
	servers := []Op{OpNotification, OpCheck, OpError, OpCreateSession, OpDeleteContainer}
	for o := Op(-100); o < 3000; o++ {
		_, named := opNames[o]
		if want := named && !slices.Contains(servers, o); o.Known() != want {
			t.Errorf("%v is known: %v", o, !want)
		}
	}
}
