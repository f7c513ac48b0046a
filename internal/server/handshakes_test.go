package server

import "testing"

// A host that opens connections and sends nothing takes places only from itself, once another
// host wants one.
func TestSilentHostLeavesHandshakesToOthers(t *testing.T) {
	var h handshakes
	const most = 10
	var silent []*conn
	for range most {
		silent = append(silent, connFrom("10.9.9.9"))
		if refused := h.enter(silent[len(silent)-1], most); refused != nil {
			t.Fatal("there was space")
		}
	}
	if c := connFrom("10.9.9.9"); h.enter(c, most) != c {
		t.Error("the silent host takes a place from itself")
	}
	var honest []*conn
	for i := range most / 2 {
		honest = append(honest, connFrom("10.0.0.1"))
		if refused := h.enter(honest[i], most); refused != silent[i] {
			t.Errorf("connection %d does not take the place of the oldest silent one", i)
		}
	}
	for _, host := range []string{"10.0.0.1", "10.9.9.9"} { // both have five: replacing one by the other helps nobody
		if c := connFrom(host); h.enter(c, most) != c {
			t.Errorf("%s takes more than half", host)
		}
	}
	if c := connFrom("10.0.0.2"); h.enter(c, most) == c {
		t.Error("a third host has no place")
	}
	for _, c := range append(honest, silent...) {
		h.leave(c) // also for those that have gone
	}
	if n := h.now(); n != 1 {
		t.Errorf("%d shake hands, not the third host's one", n)
	}
}

// The addresses of one IPv6 network are one host.
func TestNetworkOfIPv6SharesItsHandshakes(t *testing.T) {
	var h handshakes
	for _, host := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3"} {
		h.enter(connFrom(host), 3)
	}
	if len(h.of) != 1 {
		t.Errorf("%d hosts", len(h.of))
	}
	if c := connFrom("2001:db8:1::1"); h.enter(c, 3) == c {
		t.Error("another network has no place")
	}
}
