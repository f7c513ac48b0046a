package replica

import "github.com/conclave-project/conclave/internal/quorum"

// service is which clients are served.
type service uint8

const (
	serviceNone  service = iota // there is no role, or it is not established
	serviceReads                // reads alone, for want of a leader, see readonly.go
	serviceFull                 // as a leader or a learner
)

// role is this server's place among the others, for one epoch.
type role struct {
	service   service
	leader    quorum.ID // who was elected last
	epoch     uint32    // established, 0 between roles
	lookingMs int64     // since when there is none
	reborn    bool      // this server has another part: its machines are to be made again
	reloading bool      // the disk was asked to read everything again
}

func (o *role) serving() bool { return o.service == serviceFull }

func (o *role) readOnly() bool { return o.service == serviceReads }

// elected notes who leads.
func (o *role) elected(leader quorum.ID) { o.leader = leader }

// establish notes the epoch of the role.
func (o *role) establish(epoch uint32) { o.epoch = epoch }

// serve lets clients in, all of them or those that only read.
func (o *role) serve(s service) { o.service = s }

// leave ends a role.
func (o *role) leave(nowMs int64) {
	o.epoch, o.leader, o.lookingMs = 0, 0, nowMs
	o.stop(serviceFull)
}

// stop lets no client in any more, and reports whether these ones were let in.
func (o *role) stop(s service) bool {
	if o.service != s {
		return false
	}
	o.service = serviceNone
	return true
}

// renew wants the machines to be made again.
func (o *role) renew() { o.reborn = true }

// reload reports whether the disk is to be asked to read everything again, once: while
// that lasts no role is taken up, and the result of a second read would take away the
// role taken up after the first.
func (o *role) reload() bool {
	first := !o.reloading
	o.reloading = true
	return first
}

// reloaded notes that the machines are made from what the disk has read.
func (o *role) reloaded() { o.reborn, o.reloading = false, false }
