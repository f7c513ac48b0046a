package peers_test

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/vfs"
)

// memberMutant is a bug around members, which are not aware of it.
type memberMutant struct {
	name, what string
	rate       float64 // of the clock of every second member, 0: unchanged
	unsynced   bool    // disks do not sync what they were told to
	longer     bool    // leases
}

var memberMutants = []memberMutant{
	{name: "fast-clock", what: "the clock of every other member is twice as fast", rate: 2},
	{name: "unsynced-disk", what: "what disks were told to sync is lost with the power", unsynced: true},
	{name: "lease-too-long", what: "a grant lasts half as long again as members keep others out", longer: true},
}

// TestMemberStormsFindMutants puts bugs around members.
func TestMemberStormsFindMutants(t *testing.T) {
	for _, mutant := range memberMutants {
		t.Run(mutant.name, func(t *testing.T) {
			storm.Finds(t, mutant.what, 100, func(t *testing.T, seed uint64) storm.Played {
				return newMembersStorm(t, seed, mutant, false)
			})
		})
	}
}

// generous is a member whose grants last too long.
type generous struct{ *peers.Backend }

func (l generous) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := l.Backend.Acquire(ctx, claim)
	grant.Lease += grant.Lease / 2
	return grant, err
}

func (l generous) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	grant, err := l.Backend.Renew(ctx, grant)
	grant.Lease += grant.Lease / 2
	return grant, err
}

// unsynced is a disk that claims to have synced and has not.
type unsynced struct{ vfs.FS }

func (d unsynced) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	return unsyncedFile{file}, err
}

func (d unsynced) OpenReadWrite(name string) (vfs.File, error) {
	file, err := d.FS.OpenReadWrite(name)
	return unsyncedFile{file}, err
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// alter puts the bug into a machine.
func (mutant memberMutant) alter(m *stormMachine) {
	if mutant.rate > 0 && m.number%2 == 1 {
		m.clock = bubble.Clock(mutant.rate)
	}
}
