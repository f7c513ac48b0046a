// Package acl holds access control lists in a form in which a permission check costs
// the same however long the list is. One request may set a list of forty thousand
// entries, and another may check it as many times, while the tree is locked or on the
// only goroutine that decides writes.
package acl

import (
	"net/netip"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// List is an access control list. It is never changed, and may be used by many
// goroutines. The zero List has no entries and permits everything to everybody.
type List struct {
	entries []zk.ACL
	bytes   int    // length of all texts
	long    *index // only if there are more entries than entriesShort
}

// entriesShort is up to how many entries a scan is faster than an index. A scan compares
// each entry with each identity of a connection, and a request may make fifty thousand
// checks.
const entriesShort = 2

// index is what a long list permits each identity.
type index struct {
	exact    map[zk.Identity]zk.Perms
	schemes  map[string]zk.Perms
	networks map[netip.Prefix]zk.Perms
	lengths  []int // the distinct prefix lengths of the networks
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

// Grants returns what the entries of an identity's own scheme let it do. An address
// matches the networks that it belongs to; any other identity matches only itself.
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

// parseAddress returns the address of a connection, or an invalid one if text is not an address.
func parseAddress(text string) netip.Addr {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}
