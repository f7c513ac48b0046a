//go:build linux && interop

package ensemble

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// jaas writes a JAAS file and returns the properties that name it.
func jaas(t *testing.T, text string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jaas.conf")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return map[string]string{"java.security.auth.login.config": path, "zookeeper.fips-mode": "false"}
}

const digestSections = `
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_server="between servers"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="server" password="between servers"; };
`

// The settings that an ensemble gets in order, each in one round of restarts.
var saslRounds = [][]string{
	{"quorum.auth.enableSasl=true"},
	{"quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true"},
	{"quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true"},
}

// Apache's servers and ours authenticate to each other, with every leader.
func TestMixturesWithSASL(t *testing.T) {
	t.Run("DIGEST-MD5", func(t *testing.T) {
		mixtureWithSASL(t, jaas(t, digestSections))
	})
	t.Run("Kerberos", func(t *testing.T) {
		mixtureWithSASL(t, kerberos(t), "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST")
	})
}

// kerberos starts a KDC, and returns the properties for servers on this machine.
func kerberos(t *testing.T) map[string]string {
	t.Helper()
	k, err := servers.StartKDC(t.TempDir())
	must(t, err)
	t.Cleanup(k.Close)
	keys, err := k.Keytab("zkquorum.keytab", "zkquorum/127.0.0.1")
	must(t, err)
	module := fmt.Sprintf(`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false
		keyTab="%s" principal="zkquorum/127.0.0.1@%s";`, keys, k.Realm)
	properties := jaas(t, "QuorumServer { "+module+" };\nQuorumLearner { "+module+" };\n")
	properties["java.security.krb5.conf"] = k.Krb5Conf
	return properties
}

func mixtureWithSASL(t *testing.T, properties map[string]string, more ...string) {
	for _, mix := range []struct{ name, kinds string }{
		{"one of three follows Java 3.9", "G J8 J9"},
		{"one of three leads", "J8 J9 G"},
	} {
		t.Run(mix.name, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, mix.kinds), Properties: properties, Config: append(more, saslRounds[2]...)})
			s.inEveryRole()
		})
	}
}

// SASL is introduced between the servers in three rounds of restarts, while clients write:
// first it is accepted, then used, then required.
func TestRollingChangeToSASL(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G J9 G"), Properties: jaas(t, digestSections)})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(200)
	for _, round := range saslRounds {
		s.e.Configure(round)
		for _, m := range s.e.Members {
			must(t, m.Stop())
			must(t, m.Start(t.Context()))
			s.awaitRole(m)
			s.await(100)
		}
		t.Logf("%v: led by server %d", round, s.leader().ID)
	}
	s.check()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}
