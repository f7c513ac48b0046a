//go:build linux && applications

package applications

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// The brokers authenticate to ZooKeeper with Kerberos, and their znodes are of the name without host and realm.
func TestKafkaWithKerberosToZooKeeper(t *testing.T) {
	kdc, err := servers.StartKDC(t.TempDir())
	must(t, err)
	t.Cleanup(kdc.Close)
	k := &kafka{name: "kafka-3.9", classPath: jars(t, "kafka-3.9"), tools: kafkaToolsByBroker, dir: t.TempDir(), listener: "PLAINTEXT"}
	login := func(section, principal string) string {
		keys, err := kdc.Keytab(section+".keytab", principal)
		must(t, err)
		return kafkaFile(t, k.dir, section+".jaas", fmt.Sprintf(`%s { com.sun.security.auth.module.Krb5LoginModule required `+
			`useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="%s@%s"; };`, section, keys, principal, kdc.Realm))
	}
	k.scene = newSceneWith(t, map[string]string{
		"java.security.auth.login.config":             login("Server", "zookeeper/127.0.0.1"),
		"java.security.krb5.conf":                     kdc.Krb5Conf,
		"zookeeper.kerberos.removeHostFromPrincipal":  "true",
		"zookeeper.kerberos.removeRealmFromPrincipal": "true",
	}, "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
	k.flags = []string{"-Djava.security.auth.login.config=" + login("Client", "kafka/b1"), "-Djava.security.krb5.conf=" + kdc.Krb5Conf,
		"-Dzookeeper.server.principal=zookeeper/127.0.0.1"}
	k.settings = []string{"zookeeper.set.acl=true"}
	k.before = k.ofKafkaAlone
	k.story()
	k.ofKafkaAlone()
}

// ofKafkaAlone checks that a client without an identity changes nothing.
func (k *kafka) ofKafkaAlone() {
	k.t.Helper()
	ctx := k.t.Context()
	for _, path := range []string{"/kafka/controller", "/kafka/brokers/ids/1", "/kafka/brokers/topics/" + kafkaTopic} {
		if _, err := k.zk.Set(ctx, path, []byte("mine"), -1); !errors.Is(err, zk.ErrNoAuth) {
			k.t.Errorf("anybody writes %s: %v", path, err)
		}
		acl, _, err := k.zk.GetACL(ctx, path)
		must(k.t, err)
		if len(acl) == 0 || acl[0].Scheme != "sasl" || acl[0].ID != "kafka" {
			k.t.Errorf("the ACL of %s: %v", path, acl)
		}
	}
}
