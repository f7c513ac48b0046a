package zoocfg

import (
	"maps"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/login"
	"github.com/conclave-project/conclave/internal/auth"
)

// SASL is the configuration of SASL that results from the settings.
type SASL struct {
	login.Settings
	Section      string // sasl.serverconfig: the section of the JAAS file for clients
	Rules        string // security.auth_to_local
	NeedKerberos bool   // requireKerberosConfig

	Peers PeerSASL
}

// PeerSASL is how servers authenticate to each other, if Serves (quorum.auth.enableSasl).
type PeerSASL struct {
	Serves         bool
	ServerMust     bool   // serverRequireSasl: a server that does not authenticate is refused
	LearnerMust    bool   // learnerRequireSasl: this server authenticates itself
	Principal      string // kerberos.servicePrincipal of other servers, where _HOST stands for their host
	ServerSection  string // server.saslLoginContext
	LearnerSection string // learner.saslLoginContext
}

// superUsers is the prefix of the keys superUser.1 and so on.
const superUsers = "superUser."

// saslKeys concern SASL, for clients and between servers.
func (r *reader) saslKeys() map[string]setting {
	s, c := &r.out.SASL, &r.out.Server
	s.Section, s.Rules, s.FIPS = "Server", "DEFAULT", true
	s.Peers.Principal, s.Peers.ServerSection, s.Peers.LearnerSection = "zkquorum/localhost", "QuorumServer", "QuorumLearner"
	names := &c.Auth.Principals
	return map[string]setting{
		"java.security.auth.login.config":          javaOnly(used(text(&s.File), "none", "the JAAS file")),
		"java.security.krb5.conf":                  javaOnly(used(text(&s.Krb5Conf), "`KRB5_CONFIG`, or /etc/krb5.conf", "Kerberos' configuration, and the files that it includes")),
		"SASLAuthenticationProvider.superPassword": used(text(&s.SuperPassword), "none", "the password of the user `super`, instead of that in the file"),
		"fips-mode":                         used(flag(&s.FIPS), "true", "no DIGEST-MD5: a section that needs it is refused; no names of addresses are looked up (`allowReverseDnsLookup`). Host names are checked by Go's library in any case, even between servers, where Apache's servers check none in this mode"),
		"sasl.serverconfig":                 used(text(&s.Section), "Server", "the section for clients"),
		"superUser":                         used(text(nil), "none", "a name that may do everything"),
		"letAnySaslUserDoX":                 used(text(&names.AnyoneAs), "none", "whatever an ACL allows for this name, it allows for everybody who has proved a name by SASL"),
		"kerberos.removeHostFromPrincipal":  used(flag(&names.NoHost), "false", "names are used without their host"),
		"kerberos.removeRealmFromPrincipal": used(flag(&names.NoRealm), "false", "names are used without their realm"),
		"kerberos.canonicalizeHostNames":    refused(flag(nil), "false", "the names of server.N are used as they stand: write those that Kerberos knows"),
		"kerberos.minReLoginTimeMs":         idle(millis(nil, 0), whyTickets),
		"jaasLoginRenew":                    idle(millis(nil, 0), whyTickets),
		"security.auth_to_local":            used(r.nameRules, "DEFAULT", "rules that map Kerberos' names to short names. A name without a rule stays as it is"),
		"requireKerberosConfig":             used(flag(&s.NeedKerberos), "false", "the start is refused without a default realm"),
		"allowSaslFailedClients":            used(flag(&c.SASLOptional), "false", "a client that fails to authenticate goes on without an identity, unless it must authenticate"),
		"sessionRequireClientSASLAuth":      used(flag(&r.needSASL), "false", "a client may do nothing before it has authenticated by SASL; `enforce.auth.*` then has no effect"),

		"quorum.auth.enableSasl":                inEnsemble(used(flag(&s.Peers.Serves), "false", "servers may authenticate to each other")),
		"quorum.auth.serverRequireSasl":         inEnsemble(used(flag(&s.Peers.ServerMust), "false", "this server accepts only servers that authenticate. A running ensemble gets there in three rounds of restarts, one for each of the three keys")),
		"quorum.auth.learnerRequireSasl":        inEnsemble(used(flag(&s.Peers.LearnerMust), "false", "this server must authenticate when it connects to others")),
		"quorum.auth.kerberos.servicePrincipal": inEnsemble(used(text(&s.Peers.Principal), "zkquorum/localhost", "the name of other servers; `_HOST` stands for the host of each. With Kerberos, a server must have a name for a host of the configuration")),
		"quorum.auth.server.saslLoginContext":   inEnsemble(used(text(&s.Peers.ServerSection), "QuorumServer", "the section for connections from other servers")),
		"quorum.auth.learner.saslLoginContext":  inEnsemble(used(text(&s.Peers.LearnerSection), "QuorumLearner", "the section for connections to other servers")),
		"quorum.cnxn.threads.size":              idle(text(nil), whyThreads),
	}
}

// supers configures who may do everything. If a key occurs several times, its last value
// counts; empty values are ignored.
func (r *reader) supers() {
	names := &r.out.Server.Auth.Principals
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		if v := r.seen[key].Value; v != "" && (key == "superUser" || strings.HasPrefix(key, superUsers)) {
			names.Supers = append(names.Supers, v)
		}
	}
}

func (r *reader) nameRules(v string) error {
	r.out.SASL.Rules = v
	_, err := auth.NameRules(v, "")
	return err
}

// sasl checks the SASL keys in combination with others.
func (r *reader) sasl() {
	s, c := &r.out.SASL, &r.out.Server
	r.supers()
	c.Auth.SASL = r.saslProvider || s.File != ""
	if r.needSASL {
		c.Auth.Enforce = []string{"sasl"}
	}
	if r.needSASL && s.File == "" {
		r.missing("sessionRequireClientSASLAuth", "nobody could connect: name the JAAS file with -D java.security.auth.login.config=FILE")
	}
	peers := &s.Peers
	if c.Ensemble == nil {
		*peers = PeerSASL{}
		return
	}
	switch {
	case !peers.Serves && (peers.ServerMust || peers.LearnerMust):
		key := "quorum.auth.learnerRequireSasl"
		if peers.ServerMust {
			key = "quorum.auth.serverRequireSasl"
		}
		r.missing(key, "has no effect without quorum.auth.enableSasl=true, and is no protection")
	case peers.ServerMust && !peers.LearnerMust:
		r.missing("quorum.auth.serverRequireSasl", "needs quorum.auth.learnerRequireSasl=true: this server would ask others for what it does not give them")
	case peers.Serves && s.File == "":
		r.missing("quorum.auth.enableSasl", "needs a JAAS file: name it with -D java.security.auth.login.config=FILE")
	case peers.Serves && !peers.ServerMust:
		e := r.seen["quorum.auth.enableSasl"]
		r.remark(&e, "other servers may authenticate, but need not: quorum.auth.serverRequireSasl=true refuses those that do not")
	}
}
