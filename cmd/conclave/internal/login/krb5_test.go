package login

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// As on a machine of a Hadoop cluster: what the library does not know is inside a realm.
const krb5 = `# of the cluster
[libdefaults]
	default_realm = EXAMPLE.COM
	forwardable = yes
	EXAMPLE.COM = {
		ticket_lifetime = 1h
	}
[realms]
	EXAMPLE.COM = {
		kdc = kdc.example.com ; the first one
		auth_to_local_names = {
			admin = root
		}
		v4_name_convert = {
			host = {
				rcmd = host
			}
		}
		v4_realm = OLD
		auth_to_local = RULE:[1:$1](^a{2}$)s/a/b/
		admin_server = admin.example.com
	}
	OTHER.COM = {
		kdc = other.example.com:89
	}
[domain_realm]
	.example.com = EXAMPLE.COM
`

func TestKerberosIsConfiguredAsMITReadsIt(t *testing.T) {
	path := written(t, "krb5.conf", krb5)
	c, err := loadKrb5(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Realms) != 2 || c.Realms[0].Realm != "EXAMPLE.COM" || c.Realms[0].KDC[0] != "kdc.example.com:88" ||
		c.Realms[0].AdminServer[0] != "admin.example.com" || c.Realms[1].KDC[0] != "other.example.com:89" {
		t.Errorf("the realms are %+v", c.Realms)
	}
	if c.ResolveRealm("h1.example.com") != "EXAMPLE.COM" {
		t.Error("the domain has no realm")
	}
	realm, err := (&Settings{Krb5Conf: path}).DefaultRealm()
	if realm != "EXAMPLE.COM" || err != nil {
		t.Errorf("the default realm is %q, %v", realm, err)
	}
}

// A server without SASL starts wherever such a file is, and says what is wrong with it
// where it counts.
func TestKerberosConfigurationThatCannotBeReadIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krb5.conf")
	s := Settings{Krb5Conf: path}
	if realm, err := s.DefaultRealm(); realm != "" || err != nil {
		t.Errorf("without a file the default realm is %q, %v", realm, err)
	}
	failed := 0
	tried := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		realm, err := s.DefaultRealm()
		if err == nil {
			return
		}
		failed++
		if realm != "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%q, %v of %s", realm, err, text)
		}
	}
	for at := range krb5 {
		tried(krb5[:at])
		tried(krb5[:at] + krb5[at+1:])
		tried(krb5[:at] + []string{"\n", "{", "}", "=", "[", "]", "#", "v4_"}[at%8] + krb5[at:])
	}
	if failed == 0 {
		t.Error("nothing is wrong with any of the files")
	}
}
