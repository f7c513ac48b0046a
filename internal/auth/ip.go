package auth

import (
	"net/netip"
	"strconv"
	"strings"
)

// validIP accepts an address or an address with a number of leading bits. IPv6
// text of an IPv4 address is refused, as in ZooKeeper.
func validIP(id string) bool {
	_, _, ok := parseIP(id)
	return ok
}

// matchIP compares the leading bits of a connection's address with an entry.
func matchIP(identity, entry string) bool {
	want, bits, ok := parseIP(entry)
	if !ok {
		return false
	}
	have, err := netip.ParseAddr(identity)
	if err != nil {
		return false
	}
	have = have.Unmap().WithZone("")
	if have.Is4() != want.Is4() {
		return false
	}
	masked, err := want.Prefix(bits)
	return err == nil && masked.Contains(have)
}

func parseIP(id string) (addr netip.Addr, bits int, ok bool) {
	text, prefix, hasPrefix := strings.Cut(id, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4In6() || addr.Zone() != "" {
		return addr, 0, false
	}
	bits = addr.BitLen()
	if hasPrefix {
		n, err := strconv.Atoi(prefix)
		if err != nil || n < 0 || n > bits {
			return addr, 0, false
		}
		bits = n
	}
	return addr, bits, true
}
