package httpport

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Foreign says why a request is not of an operator's own browser or tool, "" if it may be one:
// no page of another site may ask, and on the loopback none by a name of its own for this address
// (httpport-H4). Elsewhere a server does not know its names. The request has come to an http.Server of a net.Listener.
func Foreign(r *http.Request) string {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "none" && site != "same-origin" {
		return "the request comes from a page of another site"
	}
	if !loopback(r) {
		return fromElsewhere(r) // it may have any name in the network
	}
	if site == "" { // else the browser has compared: a proxy in front may have a name of its own
		if why := fromElsewhere(r); why != "" {
			return why
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if at, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !at.Unmap().IsUnspecified() || host == "localhost" {
		return "" // 0.0.0.0 leads here, too, but browsers do not count it among the addresses to protect
	}
	return fmt.Sprintf("on the loopback, call this server localhost or by its address, not %q", host)
}

// fromElsewhere is for browsers that do not say where a page is from, as old ones, or all to an
// address that is not of the loopback, without TLS: an image or a form of another site has one
// of these headers.
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
