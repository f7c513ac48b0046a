//go:build linux && applications

package applications

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// The brokers reach ZooKeeper over TLS with a certificate, and authenticate by SASL; their znodes are closed
// to others, among them those with the passwords of users (SCRAM), and with what each user may do.
func TestKafkaWithTLSAndSASLToZooKeeper(t *testing.T) {
	certs, err := servers.NewCertificates()
	must(t, err)
	t.Cleanup(certs.Remove)
	k := &kafka{name: "kafka-3.9", classPath: jars(t, "kafka-3.9"), tools: kafkaToolsByBroker, dir: t.TempDir(), listener: "SASL_PLAINTEXT"}
	k.scene = newSceneWith(t, map[string]string{
		"java.security.auth.login.config": kafkaFile(t, k.dir, "zookeeper.jaas",
			`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="znodes"; };`),
		"zookeeper.fips-mode": "false",
	}, append(certs.Config(), "ssl.enabledProtocols=TLSv1.2,TLSv1.3", // Kafka offers 1.2
		"authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")...)

	scram := func(user string) []string {
		return []string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-256",
			"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required " +
				`username="` + user + `" password="` + user + `-secret";`}
	}
	k.admin, k.user = scram("broker"), scram("worker")
	k.flags = []string{"-Dzookeeper.fips-mode=false", "-Djava.security.auth.login.config=" + k.file("kafka.jaas",
		`Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="znodes"; };`,
		`KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="broker-secret"; };`)}
	tls := []string{"zookeeper.ssl.client.enable=true", "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
		"zookeeper.ssl.keystore.location=" + certs.Path("client-both.pem"), "zookeeper.ssl.keystore.type=PEM",
		"zookeeper.ssl.truststore.location=" + certs.Path("ca.pem"), "zookeeper.ssl.truststore.type=PEM"}
	k.settings = append([]string{"zookeeper.set.acl=true", "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
		"super.users=User:broker", "sasl.enabled.mechanisms=SCRAM-SHA-256", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256"}, tls...)
	tlsFile := k.file("zookeeper-tls.properties", tls...)
	k.tool([]string{"org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "-zk-tls-config-file", tlsFile, "-server"}, "create", "/")
	byZooKeeper := []string{"kafka.admin.ConfigCommand", "--zookeeper"}
	k.tool(byZooKeeper, "--zk-tls-config-file", tlsFile, "--alter", "--entity-type", "users", "--entity-name", "broker",
		"--add-config", "SCRAM-SHA-256=[iterations=4096,password=broker-secret]")

	k.before = func() {
		k.tool(k.tools.configs, "--alter", "--entity-type", "users", "--entity-name", "worker",
			"--add-config", "SCRAM-SHA-256=[iterations=4096,password=worker-secret]")
		k.tool([]string{"kafka.admin.AclCommand", "--bootstrap-server"}, "--add", "--allow-principal", "User:worker",
			"--producer", "--idempotent", "--topic", kafkaTopic)
		k.tool([]string{"kafka.admin.AclCommand", "--zk-tls-config-file", tlsFile, "--authorizer-properties", "zookeeper.connect="}, "--add", "--allow-principal", "User:worker",
			"--consumer", "--topic", kafkaTopic, "--group", "group")
		k.closedToOthers()
	}
	k.story()
	k.closedToOthers()
	k.step("all znodes are opened to everybody, and closed again", func() {
		migrator := []string{"kafka.admin.ZkSecurityMigrator", "--zk-tls-config-file", tlsFile, "--zookeeper.acl=unsecure", "--zookeeper.connect="}
		k.tool(migrator)
		for _, path := range []string{"/kafka/controller", "/kafka/config/users/broker", "/kafka/brokers/topics/" + kafkaTopic} {
			if acl, _, err := k.zk.GetACL(t.Context(), path); err != nil || !slices.Equal(acl, zk.OpenACL()) {
				t.Errorf("the ACL of %s: %v, %v", path, acl, err)
			}
		}
		migrator[3] = "--zookeeper.acl=secure"
		k.tool(migrator)
		k.closedToOthers()
	})
}

// closedToOthers checks that a client without an identity reads what is public, and changes nothing.
func (k *kafka) closedToOthers() {
	k.t.Helper()
	ctx := k.t.Context()
	for _, path := range []string{"/kafka/config/users/broker", "/kafka/config/users/worker"} {
		if _, _, err := k.zk.Get(ctx, path); !errors.Is(err, zk.ErrNoAuth) {
			k.t.Errorf("anybody reads %s: %v", path, err)
		}
	}
	for _, path := range []string{"/kafka/controller", "/kafka/brokers/topics/" + kafkaTopic, "/kafka/kafka-acl/Topic/" + kafkaTopic} {
		_, err := k.zk.Set(ctx, path, []byte("mine"), -1)
		if !errors.Is(err, zk.ErrNoAuth) {
			k.t.Errorf("anybody writes %s: %v", path, err)
		}
		acl, _, err := k.zk.GetACL(ctx, path)
		must(k.t, err)
		var schemes []string
		for _, entry := range acl {
			schemes = append(schemes, entry.Scheme)
		}
		if got := strings.Join(schemes, " "); !strings.Contains(got, "sasl") || !strings.Contains(got, "x509") {
			k.t.Errorf("the ACL of %s: %v", path, acl)
		}
	}
}
