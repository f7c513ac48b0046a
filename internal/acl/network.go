package acl

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// ParseNetwork reads an entry of the scheme "ip": an address, or an address with a number
// of leading bits. IPv6 text of an IPv4 address is refused, as in ZooKeeper, and numbers may have
// leading zeros or a sign. The bits after the leading ones do not count.
func ParseNetwork(entry string) (netip.Prefix, bool) {
	text, prefix, hasPrefix := strings.Cut(entry, "/")
	address, err := addressOf(text)
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

// addressOf reads an address. One of IPv4 is four numbers, as Java's Integer.parseInt reads
// them: such entries are in the data of Apache's servers.
func addressOf(text string) (netip.Addr, error) {
	parts := strings.Split(text, ".")
	if strings.Contains(text, ":") || len(parts) != 4 {
		return netip.ParseAddr(text)
	}
	var address [4]byte
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 255 {
			return netip.Addr{}, errNoAddress
		}
		address[i] = byte(n)
	}
	return netip.AddrFrom4(address), nil
}

var errNoAddress = errors.New("no address")

// AppendAddress appends an address as Java's getHostAddress writes it, without a zone: IPv6 has all its
// groups.
func AppendAddress(b []byte, address netip.Addr) []byte {
	if address = address.Unmap(); address.Is4() {
		return address.AppendTo(b)
	}
	bytes := address.As16()
	for i := 0; i < len(bytes); i += 2 {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(bytes[i])<<8|uint64(bytes[i+1]), 16)
	}
	return b
}

// WriteAddress writes the address of a connection so, with its zone; what is none stays.
func WriteAddress(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	written := string(AppendAddress(nil, address))
	if zone := address.Unmap().Zone(); zone != "" {
		written += "%" + zone
	}
	return written
}
