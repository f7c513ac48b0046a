package command

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/login"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/server"
)

const saslHint = "docs/operations.md, \"SASL\", has files that work"

// openSASL reads the JAAS file, and makes the server require of clients and servers the
// proofs that it describes.
func openSASL(cfg *server.Config, config *zoocfg.Config, logger *slog.Logger) error {
	s := &config.SASL
	realm, unread := s.DefaultRealm()
	switch {
	case s.NeedKerberos && unread != nil:
		return cli.Usage(saslHint, "requireKerberosConfig=true: %w", unread)
	case s.NeedKerberos && realm == "":
		return cli.Usage(saslHint, "requireKerberosConfig=true: no default realm is configured for Kerberos")
	}
	var err error
	if cfg.Auth.Principals.Rules, err = auth.NameRules(s.Rules, realm); err != nil {
		return cli.Usage(configHint, "security.auth_to_local: %w", err)
	}
	if s.File == "" {
		return nil
	}
	file, err := login.Open(s.Settings)
	if err != nil {
		return cli.Usage(saslHint, "%w", err)
	}
	if realm == "" && file.Kerberos(s.Section) {
		logger.Warn("Kerberos has no default realm: the rule DEFAULT of security.auth_to_local makes no name short", "error", unread)
	}
	switch {
	case file.Has(s.Section):
		if cfg.SASL, err = file.Server(s.Section, login.Clients); err != nil {
			return cli.Usage(saslHint, "SASL for clients: %w", err)
		}
		if name := file.Principal(s.Section); name != "" {
			cfg.Audit.User = name
		}
	case asksSASL(cfg):
		return cli.Usage(saslHint, "clients must authenticate with SASL, but %s has no section %s: nobody could connect", s.File, s.Section)
	default:
		logger.Warn("no client can prove itself by SASL: the JAAS file has no such section", "file", s.File, "section", s.Section)
	}
	if s.Peers.Serves {
		if err := peerProofs(cfg, &s.Peers, file); err != nil {
			return cli.Usage(saslHint, "SASL between servers: %w", err)
		}
	}
	return nil
}

// asksSASL reports whether clients are refused without SASL.
func asksSASL(cfg *server.Config) bool {
	return len(cfg.Auth.Enforce) == 1 && cfg.Auth.Enforce[0] == "sasl"
}

// peerProofs makes servers prove themselves to each other.
func peerProofs(cfg *server.Config, s *zoocfg.PeerSASL, file *login.File) error {
	begin, err := file.Server(s.ServerSection, login.Peers)
	if err != nil {
		return err
	}
	cfg.PeerProofs = &peernet.Proofs{Server: begin, Must: s.ServerMust}
	if file.Kerberos(s.ServerSection) {
		cfg.HostOf = hostOf
	}
	if !s.LearnerMust {
		return nil
	}
	prove, err := file.Client(s.LearnerSection, login.Peers)
	if err != nil {
		return err
	}
	cfg.PeerProofs.Client = func(host string) (sasl.Client, error) {
		return prove(context.Background(), strings.Replace(s.Principal, "/_HOST", "/"+strings.ToLower(host), 1))
	}
	return nil
}

// hostOf returns the host of SERVICE/HOST@REALM.
func hostOf(principal string) (string, bool) {
	parts := strings.FieldsFunc(principal, func(r rune) bool { return r == '/' || r == '@' })
	if len(parts) != 3 || principal != fmt.Sprintf("%s/%s@%s", parts[0], parts[1], parts[2]) {
		return "", false
	}
	return parts[1], true
}
