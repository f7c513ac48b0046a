package cli

import (
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/redact"
)

// StoreVariable is the environment variable that names the store, or the
// servers, when no flag does.
const StoreVariable = "CONCLAVE_STORE"

// Store is a store as named by --store, --server or CONCLAVE_STORE.
type Store struct {
	Scheme  string // "zookeeper", "file" or another backend's
	URL     string // with its scheme
	Servers string // zookeeper: host:port,host:port/chroot
	TLS     bool   // zookeeper: as zk+tls://
	Dir     string // file
}

// storeForms shows the forms of the stores that every command understands.
const storeForms = "write zk://HOST:PORT[,HOST:PORT...][/CHROOT] for servers, zk+tls:// for their port with TLS, or file:///DIR for a directory of this machine"

// ParseStore parses SCHEME://REST. A text without a scheme that looks like a list of
// servers means zookeeper, whose short form is zk; with +tls after either,
// connections use TLS. The URLs of backends other than zookeeper and file are checked
// by those backends.
func ParseStore(text string) (Store, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		if !strings.ContainsAny(text, ".:[") && text != "localhost" {
			return Store{}, Usage(storeForms, "%q is neither a URL nor a server with its port", redact.URL(text))
		}
		scheme, rest = "zk", text
	}
	short, secure := strings.CutSuffix(scheme, "+tls")
	switch short {
	case "zk", "zookeeper":
		servers, _, _ := strings.Cut(rest, "/")
		if servers == "" || strings.Contains(servers, "=") { // as in a database connection string
			return Store{}, Usage(storeForms, "store %q names no server", redact.URL(text))
		}
		if strings.Contains(servers, "@") {
			return Store{}, Usage("write --auth digest:USER:PASSWORD", "store %q has credentials", redact.URL(text))
		}
		scheme = strings.Replace(scheme, "zk", "zookeeper", 1)
		return Store{Scheme: "zookeeper", URL: scheme + "://" + rest, Servers: rest, TLS: secure}, checkPorts(rest)
	}
	switch scheme {
	case "file":
		u, err := url.Parse(text)
		if err != nil || u.Host != "" || u.Path == "" {
			return Store{}, Usage(storeForms, "store %q is not file:///DIR", redact.URL(text))
		}
		if u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
			return Store{}, Usage("in the name of a directory, write %3F for ? and %23 for #", "store %q has something after its directory", redact.URL(text))
		}
		return Store{Scheme: "file", URL: text, Dir: u.Path}, nil
	}
	return Store{Scheme: scheme, URL: text}, nil
}

// DefaultServers is where commands look for a server when nothing names one.
const DefaultServers = "127.0.0.1:2181"

// Servers finds the servers to talk to: the flag, else CONCLAVE_STORE, else
// this machine.
func Servers(flag string) (Store, error) {
	if flag == "" {
		flag = os.Getenv(StoreVariable)
	}
	if flag == "" {
		flag = DefaultServers
	}
	store, err := ParseStore(flag)
	if err != nil {
		return Store{}, err
	}
	if store.Scheme == "http" || store.Scheme == "https" {
		return Store{}, Usage("write HOST:PORT, or zk://HOST:PORT, with the port for clients", "%q is not the address of a server for clients: their protocol is not HTTP", redact.URL(flag))
	}
	if store.Scheme != "zookeeper" {
		return Store{}, Usage("name a server with --server HOST:PORT", "store %q has no znodes", redact.URL(flag))
	}
	return store, nil
}

func checkPorts(servers string) error {
	for _, one := range ServerList(servers) {
		host, port, err := net.SplitHostPort(one)
		if number, bad := strconv.Atoi(port); err != nil || bad != nil || number < 1 || number > 65535 || host == "" {
			return Usage("write HOST:PORT, as in zk1.example.com:2181", "%q is not a server with a port of 1 to 65535", one)
		}
	}
	return nil
}

// ServerList splits a list of servers into addresses with ports, without the
// chroot.
func ServerList(servers string) []string {
	list, _, _ := strings.Cut(servers, "/")
	var out []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(one); err != nil {
			one = net.JoinHostPort(strings.Trim(one, "[]"), "2181")
		}
		out = append(out, one)
	}
	return out
}

// ParseAuth parses scheme:credential, for instance digest:user:password. Its
// error does not show the credential.
func ParseAuth(text string) (client.Credential, error) {
	scheme, data, ok := strings.Cut(text, ":")
	if !ok || scheme == "" {
		return client.Credential{}, Usage("write --auth digest:USER:PASSWORD", "a credential has no scheme")
	}
	return client.Credential{Scheme: scheme, Data: []byte(data)}, nil
}
