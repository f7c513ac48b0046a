package acl

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// ParseNetwork reads an entry of the scheme "ip" as Apache's server does: an address, or an address
// with a number of leading bits. The bits after those do not count. An IPv4-mapped IPv6 address is
// taken as IPv6, so it matches no connection.
func ParseNetwork(entry string) (netip.Prefix, bool) {
	text, prefix, hasPrefix := strings.Cut(entry, "/")
	address, err := addressOf(text)
	if err != nil {
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

// addressOf reads an address, whose numbers may have leading zeros or a sign, as Java's
// Integer.parseInt reads them: such entries are in the data of Apache's servers.
func addressOf(text string) (netip.Addr, error) {
	if strings.Contains(text, ":") {
		return addressOf6(text)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return netip.Addr{}, errNoAddress
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

// addressOf6 reads eight groups; one :: may stand for any number of groups that are 0. Dotted
// notation is not accepted.
func addressOf6(text string) (netip.Addr, error) {
	const groups = 8
	head, tail, short := strings.Cut(text, "::")
	first, last := groupsOf(head, !short), groupsOf(tail, false)
	if n := len(first) + len(last); short && n >= groups || !short && n != groups {
		return netip.Addr{}, errNoAddress
	}
	var address [2 * groups]byte
	for i, group := range append(first, last...) {
		n, err := strconv.ParseInt(group, 16, 32)
		if err != nil || len(group) > 4 {
			return netip.Addr{}, errNoAddress
		}
		if i >= len(first) {
			i += groups - len(first) - len(last)
		}
		address[2*i], address[2*i+1] = byte(n>>8), byte(n)
	}
	return netip.AddrFrom16(address), nil
}

// groupsOf splits one side of a ::, which may be empty.
func groupsOf(text string, whole bool) []string {
	if text == "" && !whole {
		return nil
	}
	return strings.Split(text, ":")
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

// WriteAddress writes the address of a connection in that form, with its zone. A text that is not
// an address is returned unchanged.
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
