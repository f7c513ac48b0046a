package zoocfg

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// sharedAddresses refuses an address that two servers have, as a reconfig does, and one of the
// loopback that two have for other servers: one that dials it reaches itself.
func (r *reader) sharedAddresses(at Entry, members []ensemble.Member) {
	for i := range members {
		for j := range members[:i] {
			later, first := &members[i], &members[j]
			if address, both := sharedBy(later, first); both {
				r.problem(r.entryOf(at, later.ID), fmt.Sprintf("%s is an address of server.%d, too", address, first.ID), "")
				break
			}
		}
	}
}

// sharedBy returns the first address of a server that another one has, too. What stands for
// all addresses of a machine is none.
func sharedBy(m, other *ensemble.Member) (ensemble.Address, bool) {
	taken := addressesOf(other)
	for _, address := range addressesOf(m) {
		if slices.ContainsFunc(taken, func(a ensemble.Address) bool { return a.Port == address.Port && a.Same(address) }) {
			return address, true
		}
	}
	return ensemble.Address{}, false
}

func addressesOf(m *ensemble.Member) []ensemble.Address {
	all := slices.DeleteFunc(slices.Concat(m.Quorum, m.Election), ensemble.Address.Wildcard)
	for _, address := range []ensemble.Address{m.Client, m.Secure} {
		if address.Port != 0 && !address.Local() {
			all = append(all, address)
		}
	}
	return all
}
