// Package acl holds access control lists so that a question costs the same however
// long a list is. A request may bring a list of forty thousand entries, and another one
// ask as often what it permits: while the tree is locked, or on the one goroutine that
// decides.
package acl

import (
	"net/netip"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// List is an access control list. It is never changed, and may be used by many
// goroutines. The zero List has no entries, and keeps nobody out.
type List struct {
	entries []zk.ACL
	bytes   int    // of their texts
	long    *index // of a list with more entries than entriesShort
}

// entriesShort is how many entries are looked at sooner than looked up. Each is compared
// with each identity of a connection, and a request may ask fifty thousand times.
const entriesShort = 2

// index is what a long list permits each identity.
type index struct {
	exact    map[zk.Identity]zk.Perms
	schemes  map[string]zk.Perms
	networks map[netip.Prefix]zk.Perms
	lengths  []int // of the networks, each once
}

// New returns a list of entries, which must not be changed any more.
func New(entries []zk.ACL) List {
	l := List{entries: entries}
	for i := range entries {
		l.bytes += len(entries[i].Scheme) + len(entries[i].ID)
	}
	if len(entries) > entriesShort {
		l.long = newIndex(entries)
	}
	return l
}

func newIndex(entries []zk.ACL) *index {
	x := &index{exact: map[zk.Identity]zk.Perms{}, schemes: map[string]zk.Perms{}, networks: map[netip.Prefix]zk.Perms{}}
	for i := range entries {
		e := &entries[i]
		x.schemes[e.Scheme] |= e.Perms
		if e.Scheme != "ip" {
			x.exact[e.Identity] |= e.Perms
			continue
		}
		network, ok := ParseNetwork(e.ID)
		if !ok {
			continue
		}
		x.networks[network] |= e.Perms
		if !slices.Contains(x.lengths, network.Bits()) {
			x.lengths = append(x.lengths, network.Bits())
		}
	}
	return x
}

// Entries returns the entries, which must not be changed.
func (l List) Entries() []zk.ACL { return l.entries }

// Bytes returns the length of all texts of the entries.
func (l List) Bytes() int { return l.bytes }

// Len returns the number of entries.
func (l List) Len() int { return len(l.entries) }

// Questions returns how many look-ups Grants makes for an identity, at most.
func (l List) Questions() int {
	if l.long == nil {
		return max(1, len(l.entries))
	}
	return max(1, len(l.long.lengths))
}

// Grants returns what the list lets an identity do, by the entries of its own scheme. An
// address meets the networks that it belongs to, any other identity itself.
func (l List) Grants(who zk.Identity) zk.Perms {
	if who.Scheme == "ip" {
		return l.grantsAddress(who.ID)
	}
	if l.long != nil {
		return l.long.exact[who]
	}
	var perms zk.Perms
	for i := range l.entries {
		if l.entries[i].Identity == who {
			perms |= l.entries[i].Perms
		}
	}
	return perms
}

// GrantsScheme returns what all entries of a scheme together let their identities do.
func (l List) GrantsScheme(scheme string) zk.Perms {
	if l.long != nil {
		return l.long.schemes[scheme]
	}
	var perms zk.Perms
	for i := range l.entries {
		if l.entries[i].Scheme == scheme {
			perms |= l.entries[i].Perms
		}
	}
	return perms
}

func (l List) grantsAddress(text string) zk.Perms {
	var address netip.Addr
	var perms zk.Perms
	if l.long != nil {
		if len(l.long.lengths) > 0 {
			address = parseAddress(text)
		}
		for _, bits := range l.long.lengths {
			if network, err := address.Prefix(bits); err == nil {
				perms |= l.long.networks[network]
			}
		}
		return perms
	}
	for i := range l.entries {
		if l.entries[i].Scheme != "ip" {
			continue
		}
		if !address.IsValid() {
			address = parseAddress(text)
		}
		if network, ok := ParseNetwork(l.entries[i].ID); ok && network.Contains(address) {
			perms |= l.entries[i].Perms
		}
	}
	return perms
}

// parseAddress returns the address of a connection, an invalid one if text is none.
func parseAddress(text string) netip.Addr {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}
