package auth

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// Principals define how a proved name becomes an identity of the scheme sasl. The zero
// Principals use every name as it is.
type Principals struct {
	Rules    []NameRule // security.auth_to_local; without any all names stay as they are
	NoHost   bool       // kerberos.removeHostFromPrincipal
	NoRealm  bool       // kerberos.removeRealmFromPrincipal
	Supers   []string   // superUser, superUser.N: the identities that are the super user
	AnyoneAs string     // letAnySaslUserDoX: every client that has proved a name may do what an ACL lets this identity do
}

// Proved returns the identities of a client that has proved a name by SASL.
func (p *Principals) Proved(name string) []zk.Identity {
	id := p.identity(name)
	proved := []zk.Identity{{Scheme: "sasl", ID: id}}
	for _, super := range p.Supers {
		if id == super {
			return append(proved, Super)
		}
	}
	return proved
}

// identity writes a name as Apache does: the short name by the first rule that applies,
// then host and realm, unless they are to be removed. A name to which no rule applies
// stays.
func (p *Principals) identity(name string) string {
	parts, ok := splitName(name)
	if !ok || parts.simple {
		return name
	}
	short, ok := p.short(&parts)
	if !ok {
		return name
	}
	if parts.hasHost && !p.NoHost {
		short += "/" + parts.host
	}
	if !p.NoRealm {
		short += "@" + parts.realm
	}
	return short
}

func (p *Principals) short(parts *nameParts) (string, bool) {
	for i := range p.Rules {
		short, applies := p.Rules[i].apply(parts)
		if applies {
			return short, !strings.ContainsAny(short, "/@")
		}
	}
	return "", false
}

// nameParts are service, host and realm of service/host@REALM.
type nameParts struct {
	service, host, realm string
	simple               bool // the whole name is the service: there is no realm
	hasHost              bool
}

// splitName splits a name into its parts; false if it is not a valid Kerberos name.
func splitName(name string) (nameParts, bool) {
	rest, realm, is := strings.Cut(name, "@")
	if !is {
		return nameParts{service: name, simple: true}, true
	}
	service, host, hasHost := strings.Cut(rest, "/")
	if strings.ContainsAny(host, "/") || strings.ContainsAny(realm, "/@") {
		return nameParts{}, false
	}
	return nameParts{service: service, host: host, realm: realm, hasHost: hasHost}, true
}

// validPrincipal reports whether an id may be in an ACL.
func validPrincipal(id string) bool {
	_, ok := splitName(id)
	return ok
}

// NameRule maps a Kerberos name to a short name, as a rule of auth_to_local does.
type NameRule struct {
	realm      string // of DEFAULT: removed from names of this realm; then nothing else is set
	isDefault  bool
	components int
	format     string
	match      *regexp.Regexp // nil matches all
	from       *regexp.Regexp // nil replaces nothing
	to         string
	all        bool
}

// ruleForm is DEFAULT, or RULE:[n:format](match)s/from/to/g, where (match) and
// s/from/to/g are optional.
var ruleForm = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?)`)

// NameRules parses security.auth_to_local: a sequence of rules, of which the first that
// applies is used. DEFAULT applies to names of the default realm.
func NameRules(text, defaultRealm string) ([]NameRule, error) {
	var rules []NameRule
	for rest := strings.TrimSpace(text); rest != ""; {
		at := ruleForm.FindStringSubmatchIndex(rest)
		if at == nil {
			return nil, fmt.Errorf("%q is no rule: write DEFAULT, or RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//", rest)
		}
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return rest[at[2*n]:at[2*n+1]]
		}
		if group(1) != "" {
			rules = append(rules, NameRule{isDefault: true, realm: defaultRealm})
		} else {
			rule, err := newNameRule(group(2), group(3), at[8] >= 0, group(4), group(5), group(6), group(7) == "g")
			if err != nil {
				return nil, fmt.Errorf("%q: %w", rest[:at[1]], err)
			}
			rules = append(rules, rule)
		}
		rest = strings.TrimSpace(rest[at[1]:])
	}
	return rules, nil
}

func newNameRule(components, format string, matches bool, match, from, to string, all bool) (rule NameRule, err error) {
	rule = NameRule{format: format, all: all}
	if rule.components, err = strconv.Atoi(components); err != nil {
		return rule, fmt.Errorf("[n:format] begins with the number of components, 1 or 2")
	}
	if _, ok := rule.fill(&nameParts{hasHost: rule.components > 1}); !ok {
		return rule, fmt.Errorf("the format names a component that is not there")
	}
	if matches {
		if rule.match, err = regexp.Compile("^(?:" + match + ")$"); err != nil {
			return rule, err
		}
	}
	if from != "" {
		if rule.from, err = regexp.Compile(from); err != nil {
			return rule, err
		}
		rule.to = groups.ReplaceAllString(to, "$${$1}")
	}
	return rule, nil
}

// groups matches references to capture groups as Java writes them.
var groups = regexp.MustCompile(`\$(\d)`)

// components returns the realm, the service, and the host if there is one.
func (n *nameParts) components() []string {
	if n.hasHost {
		return []string{n.realm, n.service, n.host}
	}
	return []string{n.realm, n.service}
}

// fill puts the components into the format.
func (r *NameRule) fill(name *nameParts) (string, bool) {
	all, ok := name.components(), true
	filled := reference.ReplaceAllStringFunc(r.format, func(found string) string {
		n, err := strconv.Atoi(found[1:])
		if err != nil || n >= len(all) {
			ok = false
			return ""
		}
		return all[n]
	})
	return filled, ok
}

var reference = regexp.MustCompile(`\$\d+`)

// apply returns the short name of a name by this rule, if the rule applies to it.
func (r *NameRule) apply(name *nameParts) (string, bool) {
	if r.isDefault {
		return name.service, r.realm == name.realm
	}
	if r.components != len(name.components())-1 {
		return "", false
	}
	text, ok := r.fill(name)
	if !ok || r.match != nil && !r.match.MatchString(text) {
		return "", false
	}
	switch {
	case r.from == nil:
	case r.all:
		text = r.from.ReplaceAllString(text, r.to)
	default:
		if at := r.from.FindStringSubmatchIndex(text); at != nil {
			text = text[:at[0]] + string(r.from.ExpandString(nil, r.to, text, at)) + text[at[1]:]
		}
	}
	return text, true
}
