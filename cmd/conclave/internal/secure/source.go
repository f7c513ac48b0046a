package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/lobby"
)

// Source is the TLS configuration that results from one family of settings. It is safe for
// concurrent use.
type Source struct {
	long longHandshakes // in progress

	prefix   string // of the keys, in messages
	settings Settings
	logger   *slog.Logger

	oldest, newest uint16
	ciphers        []uint16
	clientAuth     tls.ClientAuthType
	revocation     *revocation    // nil: revocation is not checked
	idRule         *idRule        // nil: a client's id is the name in its certificate
	nameless       lobby.Failures // clients for which idRule finds no id
	resolver       *resolver

	read       atomic.Pointer[material]
	refreshing sync.Mutex
	refused    []fileState // files that could not be read, already logged; guarded by refreshing
	hosts      []string    // see TellDoubts; guarded by refreshing
}

// material is the result of one reading of all files (secure-T2).
type material struct {
	keys  []tls.Certificate
	roots *x509.CertPool // nil: the system's
	files []fileState
}

// fileState is what is compared to detect a change of a file.
type fileState struct {
	name string
	info os.FileInfo // nil if stat failed
}

// reloadEvery is how often files are checked for changes, with Reload.
const reloadEvery = time.Second

// Open reads the files of a family; its prefix, "ssl." or "ssl.quorum.", is for messages.
// An error says which setting or file is wrong, and how to correct it. A server needs a key
// store, and a trust store unless it asks for no certificates; a client needs neither.
func Open(prefix string, settings Settings, serves bool, logger *slog.Logger) (*Source, error) {
	s := &Source{prefix: prefix, settings: settings, logger: logger, resolver: systemResolver()}
	var err error
	if s.oldest, s.newest, err = settings.versions(prefix); err != nil {
		return nil, err
	}
	if s.ciphers, err = settings.ciphers(prefix, s.newest); err != nil {
		return nil, err
	}
	if s.clientAuth, err = settings.clientAuth(prefix); err != nil {
		return nil, err
	}
	if s.idRule, err = settings.ClientID.rule(); err != nil {
		return nil, err
	}
	if serves && settings.Key.Location == "" {
		return nil, fmt.Errorf("%skeyStore.location is not set: name the file with this server's key and certificate", prefix)
	}
	if serves && settings.Trust.Location == "" && s.clientAuth != tls.NoClientCert {
		return nil, fmt.Errorf("%strustStore.location is not set: name the file with the authorities of clients' certificates, "+
			"or set %sclientAuth=none", prefix, prefix)
	}
	if settings.CRL || settings.OCSP {
		s.revocation = &revocation{crl: settings.CRL, ocsp: settings.OCSP}
	}
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	s.read.Store(m)
	s.warn(m)
	return s, nil
}

// load reads all files. It records their states first, so refresh notices a file that
// changes while it is being read.
func (s *Source) load() (*material, error) {
	m := &material{files: s.states()}
	if s.settings.Key.Location != "" {
		keys, err := s.settings.Key.keys()
		if err != nil {
			return nil, fmt.Errorf("%skeyStore: %w", s.prefix, err)
		}
		m.keys = keys
	}
	if s.settings.Trust.Location != "" {
		authorities, err := s.settings.Trust.authorities()
		if err != nil {
			return nil, fmt.Errorf("%strustStore: %w", s.prefix, err)
		}
		m.roots = x509.NewCertPool()
		for _, authority := range authorities {
			m.roots.AddCert(authority)
		}
	}
	return m, nil
}

// states returns the current states of all files.
func (s *Source) states() []fileState {
	var states []fileState
	for _, name := range []string{
		s.settings.Key.Location, s.settings.Key.KeyLocation, s.settings.Key.PasswordPath, s.settings.Trust.Location, s.settings.Trust.PasswordPath,
	} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			info = nil
		}
		states = append(states, fileState{name, info})
	}
	return states
}

func (f fileState) same(g fileState) bool {
	if f.info == nil || g.info == nil {
		return f.info == nil && g.info == nil
	}
	return os.SameFile(f.info, g.info) && f.info.ModTime().Equal(g.info.ModTime()) && f.info.Size() == g.info.Size()
}

// Watch reads the files again when they change, until ctx ends, if Reload is set. Existing
// connections stay (secure-T3). While the files cannot be read or do not fit together, for
// example after a new key was written and before its certificate, the previous material
// stays in use. With or without Reload, a warning about a certificate that expires soon is
// logged once a day.
func (s *Source) Watch(ctx context.Context) {
	ticker, days := time.NewTicker(reloadEvery), time.NewTicker(24*time.Hour)
	defer ticker.Stop()
	defer days.Stop()
	if !s.settings.Reload {
		ticker.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.refresh()
		case <-days.C:
			s.warn(s.read.Load())
		}
	}
}

// warn logs certificates that peers refuse, or soon will: only the peers would notice.
func (s *Source) warn(m *material) {
	for _, key := range m.keys {
		now, c := time.Now(), key.Leaf
		what := "a certificate has expired: others refuse this server"
		switch left := c.NotAfter.Sub(now); {
		case now.Before(c.NotBefore):
			what = "a certificate is not valid yet: others refuse this server until then"
		case left > c.NotAfter.Sub(c.NotBefore)/10:
			continue
		case left > 0:
			what = "a certificate expires soon: others will refuse this server then"
		}
		s.logger.Warn(what, "keys", s.prefix+"*", "subject", subject(c), "from", c.NotBefore, "until", c.NotAfter)
	}
}

// refresh reads the files again if they have changed.
func (s *Source) refresh() {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	now := s.states()
	if slices.EqualFunc(now, s.read.Load().files, fileState.same) {
		return
	}
	m, err := s.load()
	switch {
	case err == nil:
		s.read.Store(m)
		s.logger.Info("keys and certificates were read again", "keys", s.prefix+"*", "subject", m.subject(), "until", m.until())
		s.warn(m)
		s.doubt()
	case !slices.EqualFunc(now, s.refused, fileState.same):
		s.logger.Error("changed keys or certificates cannot be read; the previous ones are still used", "error", err)
		s.refused = now
	}
}

func (m *material) subject() string {
	if len(m.keys) == 0 {
		return ""
	}
	return subject(m.keys[0].Leaf)
}

func (m *material) until() time.Time {
	if len(m.keys) == 0 {
		return time.Time{}
	}
	return m.keys[0].Leaf.NotAfter
}

// comparesHosts reports whether the certificate of a connecting peer must be for its
// address.
func (s *Source) comparesHosts() bool { return s.settings.ClientHostCheck && !s.settings.NoHostCheck }

// comparesMembers reports whether the certificate of a connecting peer must be for one of
// the given hosts; nil means any. Its address is compared as well only if comparesHosts.
func (s *Source) comparesMembers(hosts func() []string) bool {
	return hosts != nil && !s.settings.NoHostCheck
}

// server returns the configuration for accepting a handshake. If hosts is given, and hosts
// are compared at all, the peer must be one of them.
func (s *Source) server(remote string, hosts func() []string) *tls.Config {
	m := s.read.Load()
	c := &tls.Config{
		Certificates: m.keys, ClientCAs: m.roots, ClientAuth: s.clientAuth, MinVersion: s.oldest, MaxVersion: s.newest, CipherSuites: s.ciphers,
		SessionTicketsDisabled: true, // a ticket would outlive its certificate's authority
	}
	checkHost := s.comparesHosts()
	checkMember := s.comparesMembers(hosts)
	if !checkHost && !checkMember && s.revocation == nil {
		return c
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || len(state.VerifiedChains) == 0 {
			return nil // the settings want a certificate but do not require one
		}
		ctx, cancel := s.inTime()
		defer cancel()
		if checkHost {
			if err := s.isFor(ctx, state.VerifiedChains[0], remote, ""); err != nil {
				return err
			}
		}
		if checkMember && !s.isOneOf(ctx, hosts(), state.VerifiedChains[0], remote) {
			return fmt.Errorf("the certificate of %s is for no server of the configuration", subject(state.PeerCertificates[0]))
		}
		return s.notRevoked(state.VerifiedChains[0])
	}
	return c
}

// dialer returns the configuration for dialing a host.
func (s *Source) dialer(host, remote string) *tls.Config {
	if s.settings.Reload {
		s.refresh()
	}
	m := s.read.Load()
	return &tls.Config{
		Certificates: m.keys, ServerName: host, MinVersion: s.oldest, MaxVersion: s.newest, CipherSuites: s.ciphers,
		InsecureSkipVerify: true, // VerifyConnection does all the verification
		VerifyConnection: func(state tls.ConnectionState) error {
			chain, err := m.chain(state.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			if !s.settings.NoHostCheck {
				ctx, cancel := s.inTime()
				defer cancel()
				if err := s.isFor(ctx, chain, remote, host); err != nil {
					return err
				}
			}
			return s.notRevoked(chain)
		},
	}
}

// notRevoked checks a chain for revoked certificates, if the settings ask for it.
func (s *Source) notRevoked(chain []*x509.Certificate) error {
	if s.revocation == nil {
		return nil
	}
	return s.revocation.check(chain)
}
