package ensemble

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Address is where a server listens. The host is a name or an IP literal as in
// the configuration, without brackets and not resolved.
type Address struct {
	Host string
	Port uint16
}

// String is host:port, with an IPv6 literal in brackets.
func (a Address) String() string {
	return bracketed(a.Host) + ":" + strconv.Itoa(int(a.Port))
}

// Wildcard reports whether a stands for all addresses of a machine, so nobody can dial it.
func (a Address) Wildcard() bool {
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && ip.IsUnspecified()
}

// Same reports whether two hosts are the same name, or the same address in
// whatever form. The ports do not count.
func (a Address) Same(b Address) bool {
	if strings.EqualFold(a.Host, b.Host) {
		return true
	}
	x, errA := netip.ParseAddr(a.Host)
	y, errB := netip.ParseAddr(b.Host)
	return errA == nil && errB == nil && x.Unmap() == y.Unmap()
}

// place returns a in the form of a map key: two addresses with the same port whose hosts
// are the Same have equal places.
func (a Address) place() Address {
	a.Host = strings.ToLower(a.Host)
	return a
}

// Local reports whether a means a different place on every machine, so two
// servers may both have it.
func (a Address) Local() bool {
	if strings.EqualFold(a.Host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && (ip.IsUnspecified() || ip.IsLoopback())
}

// bracketed returns a host in the form that precedes a port.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// anyHost is the host of a client address that names only a port.
const anyHost = "0.0.0.0"

// hostBytesMax is the longest name in the domain name system, plus space for a
// zone.
const hostBytesMax = 320

// hostOf checks a host and gives a literal the form that Java prints (ensemble-E2): all
// eight groups of IPv6, and plain IPv4 for an IPv4-mapped address.
func hostOf(text string) (string, error) {
	if text == "" || len(text) > hostBytesMax {
		return "", fmt.Errorf("a host of %d bytes is not 1 to %d", len(text), hostBytesMax)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`[]|;,=\"`, c) >= 0 {
			return "", fmt.Errorf("%q cannot be in the name of a host", c)
		}
	}
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil && strings.Contains(text, ":"):
		return "", fmt.Errorf("%q is no IPv6 address", text)
	case err != nil:
		return text, nil
	case ip.Is4In6() && ip.Zone() == "", ip.Is4():
		return ip.Unmap().String(), nil
	}
	return spelledOut(ip), nil
}

// spelledOut returns an IPv6 address without ::.
func spelledOut(ip netip.Addr) string {
	b := ip.As16()
	var s strings.Builder
	for i := 0; i < len(b); i += 2 {
		if i > 0 {
			s.WriteByte(':')
		}
		s.WriteString(strconv.FormatUint(uint64(b[i])<<8|uint64(b[i+1]), 16))
	}
	if zone := ip.Zone(); zone != "" {
		s.WriteString("%" + zone)
	}
	return s.String()
}

// errNumber marks numbers that Java's parsers refuse. A reconfig with such a
// number is answered with a different code than other invalid ones.
var errNumber = errors.New("not a number")

// portOf reads a port, 1 to 65535.
func portOf(text string) (uint16, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port from 1 to 65535", text)
	}
	return uint16(n), nil
}

// fields splits host:a:b, where the host may be in brackets.
func fields(text string) ([]string, error) {
	rest, inBrackets := strings.CutPrefix(text, "[")
	if !inBrackets {
		return strings.Split(text, ":"), nil
	}
	host, ports, closed := strings.Cut(rest, "]:")
	if !closed {
		return nil, fmt.Errorf("%q has no ]: after its [", text)
	}
	return append([]string{host}, strings.Split(ports, ":")...), nil
}

// clientAddress reads [host:]port; the zero value for nothing.
func clientAddress(text string) (Address, error) {
	if text = strings.TrimSpace(text); text == "" {
		return Address{}, nil
	}
	parts, err := fields(text)
	if err != nil || len(parts) > 2 {
		return Address{}, fmt.Errorf("client address %q: want [host:]port", text)
	}
	host := anyHost
	if len(parts) == 2 {
		if host, err = hostOf(parts[0]); err != nil {
			return Address{}, fmt.Errorf("client address %q: %w", text, err)
		}
	}
	port, err := portOf(parts[len(parts)-1])
	if err != nil {
		return Address{}, fmt.Errorf("client address %q: %w", text, err)
	}
	return Address{host, port}, nil
}
