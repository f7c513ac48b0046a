//go:build linux && interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// whoami runs Apache's client with a JAAS file, or without one if it is "", and returns
// what it prints.
func whoami(t *testing.T, version, jaas string, properties map[string]string, args ...string) string {
	t.Helper()
	flags := []string{"-Dzookeeper.fips-mode=false", "-Dzookeeper.server.principal=zookeeper/127.0.0.1"}
	for name, value := range properties {
		flags = append(flags, "-D"+name+"="+value)
	}
	if jaas != "" {
		path := filepath.Join(t.TempDir(), "client.conf")
		must(t, os.WriteFile(path, []byte(jaas), 0o600))
		flags = append(flags, "-Djava.security.auth.login.config="+path)
	}
	line, err := servers.JavaClient(t.Context(), version, flags, append([]string{filepath.Join("testdata", "Whoami.java")}, args...))
	must(t, err)
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok { // other lines are log output
			said = append(said, text)
		}
	}
	return strings.Join(said, " ")
}

// Apache's clients authenticate to our server with their own JAAS files.
func TestJavaClientsWithSASL(t *testing.T) {
	digest := func(user, password string) string {
		return fmt.Sprintf(`Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="%s" password="%s"; };`, user, password)
	}
	k, err := servers.StartKDC(t.TempDir())
	must(t, err)
	t.Cleanup(k.Close)
	krb5 := map[string]string{"java.security.krb5.conf": k.Krb5Conf}
	module := func(keytab, principal string) string {
		keys, err := k.Keytab(keytab, principal)
		must(t, err)
		return fmt.Sprintf(`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false
			keyTab="%s" principal="%s@%s";`, keys, principal, k.Realm)
	}
	kerberos := "Server { " + module("server.keytab", "zookeeper/127.0.0.1") + " };"
	for _, how := range []struct {
		name, server, client, wrong string
		config                      []string
		as                          string
		properties                  map[string]string
	}{
		{"DIGEST-MD5", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_app="secret"; };`,
			digest("app", "secret"), digest("app", "wrong"), nil, "app", nil},
		{"Kerberos", kerberos,
			"Client { " + module("client.keytab", "app/h1") + " };", "", nil, "app/h1@EXAMPLE.COM", krb5},
		{"Kerberos, short names", kerberos,
			"Client { " + module("client2.keytab", "app/h2") + " };", "",
			[]string{"kerberos.removeHostFromPrincipal=true", "kerberos.removeRealmFromPrincipal=true"}, "app", krb5},
	} {
		t.Run(how.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.conf")
			must(t, os.WriteFile(path, []byte(how.server), 0o600))
			properties := map[string]string{"java.security.auth.login.config": path, "zookeeper.fips-mode": "false"}
			for name, value := range how.properties {
				properties[name] = value
			}
			for _, line := range how.config {
				name, value, _ := strings.Cut(line, "=")
				properties["zookeeper."+name] = value
			}
			s, err := servers.Start(t.Context(), guest(t), servers.Options{Properties: properties, StartWithin: time.Minute,
				Config: []string{"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}})
			must(t, err)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(s.LogTail(2000))
				}
				must(t, s.Stop())
			})
			for _, version := range []string{servers.Apache39, servers.Apache38} {
				secret := "/of-" + version
				got := whoami(t, version, how.client, how.properties, s.Addr, secret, how.as)
				if want := "state SaslAuthenticated ip 127.0.0.1 sasl " + how.as + " made " + secret; got != want {
					t.Errorf("client %s: %s, want %s", version, got, want)
				}
				if got, want := whoami(t, version, how.client, how.properties, s.Addr, secret), "sasl "+how.as+" read 0"; !strings.HasSuffix(got, want) {
					t.Errorf("client %s reads its znode: %s", version, got)
				}
				if got, want := whoami(t, version, "", nil, s.Addr, secret), "state SyncConnected ip 127.0.0.1 code NOAUTH"; got != want {
					t.Errorf("client %s as nobody: %s, want %s", version, got, want)
				}
			}
			if how.wrong != "" {
				if got := whoami(t, servers.Apache39, how.wrong, nil, s.Addr); strings.Contains(got, "sasl") || !strings.Contains(got, "AuthFailed") {
					t.Errorf("with a wrong password: %s", got)
				}
			}
		})
	}
}
