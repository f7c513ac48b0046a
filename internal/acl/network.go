package acl

import (
	"net/netip"
	"strconv"
	"strings"
)

// ParseNetwork reads an entry of the scheme "ip": an address, or an address with a number
// of leading bits. IPv6 text of an IPv4 address is refused, as in ZooKeeper. The bits after
// the leading ones do not count.
func ParseNetwork(entry string) (netip.Prefix, bool) {
	text, prefix, hasPrefix := strings.Cut(entry, "/")
	address, err := netip.ParseAddr(text)
	if err != nil || address.Is4In6() || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	bits := address.BitLen()
	if hasPrefix {
		if bits, err = strconv.Atoi(prefix); err != nil || bits < 0 {
			return netip.Prefix{}, false
		}
	}
	network, err := address.Prefix(bits)
	return network, err == nil
}
