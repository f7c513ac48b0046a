package httpport

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Foreign returns why a request is not from an operator's own browser or tool, "" if it may
// be (httpport-H4). Requests from pages of other sites are refused, and on the loopback
// also requests that use a name of another site that resolves to this address. Elsewhere a
// server does not know by which names it is reached. The request must come from an
// http.Server on a net.Listener.
func Foreign(r *http.Request) string {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "none" && site != "same-origin" {
		return "the request comes from a page of another site"
	}
	if !loopback(r) {
		return fromElsewhere(r) // in a network the server may have any name
	}
	if site == "" { // otherwise the browser has compared the sites; behind a proxy, the host may differ
		if why := fromElsewhere(r); why != "" {
			return why
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if at, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !at.Unmap().IsUnspecified() || host == "localhost" {
		return "" // 0.0.0.0 also leads here, but browsers do not treat it as an address to protect
	}
	return fmt.Sprintf("on the loopback, call this server localhost or by its address, not %q", host)
}

// fromElsewhere handles browsers that do not send the site of a page: old ones, and all
// browsers when the address is not the loopback and there is no TLS. A request for an image
// or by a form of another site has one of these headers.
func fromElsewhere(r *http.Request) string {
	for _, name := range []string{"Origin", "Referer"} {
		if from := r.Header.Get(name); from != "" {
			if u, err := url.Parse(from); err != nil || !strings.EqualFold(u.Host, r.Host) {
				return "the request comes from a page of another site"
			}
		}
	}
	return ""
}

// loopback reports whether the request came to an address of the loopback.
func loopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
