package zoocfg

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// sharedAddresses refuses an address for other servers that occurs in two server lines, as
// a reconfig does: a server that dials it reaches only one of the two, or itself. A shared
// address for clients may lead to a different machine from each client, so it is only
// remarked on.
func (r *reader) sharedAddresses(at Entry, members []ensemble.Member) {
	for i := range members {
		for j := range members[:i] {
			later, first := &members[i], &members[j]
			const too = "%s is an address of server.%d, too"
			if address, both := sharedBy(forServers(later), forServers(first)); both {
				r.problem(r.entryOf(at, later.ID), fmt.Sprintf(too, address, first.ID), "")
				break
			}
			if address, both := sharedBy(forAll(later), forAll(first)); both {
				e := r.entryOf(at, later.ID)
				r.remark(&e, too, address, first.ID)
				break
			}
		}
	}
}

// sharedBy returns the first address of a server that another server has, too.
func sharedBy(its, taken []ensemble.Address) (ensemble.Address, bool) {
	for _, address := range its {
		if slices.ContainsFunc(taken, func(a ensemble.Address) bool { return a.Port == address.Port && a.Same(address) }) {
			return address, true
		}
	}
	return ensemble.Address{}, false
}

// forServers returns the addresses at which other servers dial a server, without wildcards.
func forServers(m *ensemble.Member) []ensemble.Address {
	return slices.DeleteFunc(slices.Concat(m.Quorum, m.Election), ensemble.Address.Wildcard)
}

// forAll returns the addresses of forServers and those for clients.
func forAll(m *ensemble.Member) []ensemble.Address {
	all := forServers(m)
	for _, address := range []ensemble.Address{m.Client, m.Secure} {
		if address.Port != 0 && !address.Local() {
			all = append(all, address)
		}
	}
	return all
}

// ownMachine remarks on a loopback address in a server line if servers are on several
// machines. Without reconfigs, a server may have such an address in its own line. With
// reconfigs, all servers use the lines of their leader from the first election on, and
// would look for that server on their own machines.
func (r *reader) ownMachine(at Entry, members []ensemble.Member) {
	reached := func(m ensemble.Member) bool {
		return slices.ContainsFunc(m.Quorum, func(a ensemble.Address) bool { return !a.Local() })
	}
	if !r.out.Server.ReconfigEnabled || !slices.ContainsFunc(members, reached) {
		return
	}
	for i := range members {
		if m := &members[i]; !reached(*m) {
			e := r.entryOf(at, m.ID)
			r.remark(&e, "%s means a different machine on each server, and with reconfigEnabled=true the other servers use this line, too: "+
				"they would not find this server when it leads. Write its host, and quorumListenOnAllIPs=true for ports on all addresses", m.Quorum[0].Host)
		}
	}
}
