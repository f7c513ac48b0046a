package acl

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func entry(perms zk.Perms, scheme, id string) zk.ACL {
	return zk.ACL{Perms: perms, Identity: zk.Identity{Scheme: scheme, ID: id}}
}

// A long list grants what its entries, checked one by one, grant.
func TestLongListGrantsWhatItsEntriesGrant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	address := func() string {
		if r.IntN(4) == 0 {
			return fmt.Sprintf("fe80::%x", r.IntN(4))
		}
		return fmt.Sprintf("10.0.%d.%d", r.IntN(2), r.IntN(4))
	}
	draw := func() zk.ACL {
		perms := zk.Perms(r.IntN(32))
		switch r.IntN(5) {
		case 0:
			return entry(perms, "world", "anyone")
		case 1:
			return entry(perms, "digest", fmt.Sprint("user:", r.IntN(3)))
		case 2:
			return entry(perms, "ip", fmt.Sprint(address(), "/", r.IntN(33)))
		case 3:
			return entry(perms, "ip", "no address")
		}
		return entry(perms, "ip", address())
	}
	asked := []zk.Identity{{Scheme: "world", ID: "anyone"}, {Scheme: "digest", ID: "user:1"}, {Scheme: "digest", ID: "user:9"},
		{Scheme: "ip", ID: "10.0.1.2"}, {Scheme: "ip", ID: "::ffff:10.0.0.1"}, {Scheme: "ip", ID: "fe80::2%eth0"},
		{Scheme: "ip", ID: "192.168.0.1"}, {Scheme: "ip", ID: "pipe"}, {Scheme: "odd", ID: "x"}}
	for range 2000 {
		var all []zk.ACL
		for range entriesShort + 1 + r.IntN(20) {
			all = append(all, draw())
		}
		long := New(all)
		if long.long == nil || long.Len() != len(all) {
			t.Fatal("the list is not long")
		}
		for _, who := range asked {
			var want zk.Perms
			for i := range all {
				want |= New(all[i : i+1]).Grants(who)
			}
			if got := long.Grants(who); got != want {
				t.Fatalf("%v may do %b, and %b by the entries %v", who, got, want, all)
			}
		}
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3.4": "1.2.3.4/32", "1.2.3.4/8": "1.0.0.0/8", "1.2.3.4/0": "0.0.0.0/0", "fe80::1/10": "fe80::/10", "::1": "::1/128",
		"127.000.0.01": "127.0.0.1/32", "127.0.0.01/08": "127.0.0.0/8", "+127.0.0.-0": "127.0.0.0/32",
		"1.2.3.256": "", "1.2.3.": "", "1.2.3.4.5": "", "1.2.3.0x4": "", "1.2.3.-4": "",
		"+1::-1": "1::ffff/128", "0001:2:3:4:5:6:7:8/64": "1:2:3:4::/64", "1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0/128", "::/0": "::/0",
		"1:2:3:4:5:6:7": "", "1:2:3:4:5:6:7:8:9": "", "1::2::3": "", "1:2:3:4::5:6:7:8": "", "::12345": "", "::g": "", ":1::": "",
		"64:ff9b::1.2.3.4": "", ":::": "",
		"1.2.3": "", "1.2.3.4/33": "", "1.2.3.4/-1": "", "1.2.3.4/x": "", "::ffff:1.2.3.4": "", "fe80::1%eth0": "", "": "",
	} {
		got, ok := ParseNetwork(text)
		if ok != (want != "") || ok && got != netip.MustParsePrefix(want) {
			t.Errorf("%q is %v, %v; want %q", text, got, ok, want)
		}
	}
}

// An IPv4 address is always given as IPv4, even if IPv6 carries it.
func TestCarriedAddressesAreANetworkOfNobody(t *testing.T) {
	network, ok := ParseNetwork("::ffff:102:304/0")
	if !ok || network.Contains(parseAddress("1.2.3.4")) || network.Contains(parseAddress("::ffff:1.2.3.4")) {
		t.Errorf("%v, %v", network, ok)
	}
}

// The cost of a check does not depend on the length of the list.
func BenchmarkGrants(b *testing.B) {
	for _, n := range []int{1, 10, 100, 40_000} {
		all := []zk.ACL{entry(zk.PermRead, "world", "anyone")}
		for i := range n - 1 {
			all = append(all, entry(zk.PermAll, "ip", fmt.Sprintf("2.0.%d.%d", i>>8, i&255)))
		}
		list := New(all)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				list.Grants(zk.Identity{Scheme: "ip", ID: "127.0.0.1"})
			}
		})
	}
}

// TestShortListsAreShort: a short list is scanned for each identity, a long one has an
// index, and a request may make fifty thousand checks.
func TestShortListsAreShort(t *testing.T) {
	var entries []zk.ACL
	for i := range 4 {
		entries = append(entries, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprint(i)}})
	}
	if l := New(entries); l.long == nil {
		t.Errorf("a list of %d entries is looked through", len(entries))
	}
}
