package replica

import "github.com/conclave-project/conclave/internal/quorum"

// service says which clients are served.
type service uint8

const (
	serviceNone  service = iota // none: there is no role, or it is not established
	serviceReads                // only reads, because there is no leader, see readonly.go
	serviceFull                 // all, as a leader or a learner
)

// role is this server's role in the ensemble, for one epoch.
type role struct {
	service   service
	leader    quorum.ID // the server that was elected last
	epoch     uint32    // the established epoch, 0 between roles
	lookingMs int64     // since when there is no role
	reborn    bool      // this server becomes an observer or a participant: its machines must be created again
	reloading bool      // the disk was asked to read everything again
}

func (o *role) serving() bool { return o.service == serviceFull }

func (o *role) readOnly() bool { return o.service == serviceReads }

// elected records the leader.
func (o *role) elected(leader quorum.ID) { o.leader = leader }

// establish records the epoch of the role.
func (o *role) establish(epoch uint32) { o.epoch = epoch }

// serve begins to serve clients: all of them, or only those that read.
func (o *role) serve(s service) { o.service = s }

// leave ends a role.
func (o *role) leave(nowMs int64) {
	o.epoch, o.leader, o.lookingMs = 0, 0, nowMs
	o.stop(serviceFull)
}

// stop ends a service, and reports whether it was the present one.
func (o *role) stop(s service) bool {
	if o.service != s {
		return false
	}
	o.service = serviceNone
	return true
}

// renew demands that the machines are created again.
func (o *role) renew() { o.reborn = true }

// reload reports whether to ask the disk to read everything again, which is done only once. No
// role is begun until that is done: the result of a second read would undo a role begun after
// the first.
func (o *role) reload() bool {
	first := !o.reloading
	o.reloading = true
	return first
}

// reloaded records that the machines were created from what the disk has read.
func (o *role) reloaded() { o.reborn, o.reloading = false, false }
