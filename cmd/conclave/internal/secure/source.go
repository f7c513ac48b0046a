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

// Source is what one family of settings comes to. All methods may be called by any
// goroutine.
type Source struct {
	long longHandshakes // that are under way

	prefix   string // of the keys, in messages
	settings Settings
	logger   *slog.Logger

	oldest, newest uint16
	ciphers        []uint16
	clientAuth     tls.ClientAuthType
	revocation     *revocation    // nil: nobody is asked
	idRule         *idRule        // nil: clients are known by their names
	nameless       lobby.Failures // of clients for which it finds no id
	resolver       *resolver

	read       atomic.Pointer[material]
	refreshing sync.Mutex
	refused    []fileState // what could not be read, and was logged; guarded by refreshing
	hosts      []string    // see TellDoubts; guarded by refreshing
}

// material is one reading of the files (secure-T2).
type material struct {
	keys  []tls.Certificate
	roots *x509.CertPool // nil: those of the system
	files []fileState
}

// fileState is what a change of a file shows in.
type fileState struct {
	name string
	info os.FileInfo // nil if it could not be looked at
}

// reloadEvery is how often files are looked at, with Reload.
const reloadEvery = time.Second

// Open reads the files of a family, whose prefix is for messages: "ssl." or
// "ssl.quorum.". The error says which setting or file is wrong, and how to set it right.
// A server needs a key store, and a trust store unless it asks nobody for a certificate;
// who only dials needs neither.
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

// load reads all files. Those that change meanwhile are read again: what was looked at
// first is older then.
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

// states looks at all files.
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

// Watch reads the files again when they change, until ctx ends, if Reload is set.
// Connections stay (secure-T3). While files cannot be read or do not fit together, as
// between the writing of a key and of its certificate, what was read before counts. A
// certificate that ends soon is told once a day in any case.
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

// warn tells of certificates that others do not take, or will soon not: it is they who notice.
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

// comparesHosts reports whether the certificate of who dials must be for its address.
func (s *Source) comparesHosts() bool { return s.settings.ClientHostCheck && !s.settings.NoHostCheck }

// comparesMembers reports whether the certificate of who dials must be for one of some hosts,
// which are given where it must: for its address as well, or by what stands in it alone.
func (s *Source) comparesMembers(hosts func() []string) bool {
	return hosts != nil && !s.settings.NoHostCheck
}

// server is how a connection that came in is shaken hands with: from one of the hosts, if
// they are given and hosts are compared at all.
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
			return nil // the settings want a certificate and do not need it
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

// dialer is how a connection to a host is shaken hands with.
func (s *Source) dialer(host, remote string) *tls.Config {
	if s.settings.Reload {
		s.refresh()
	}
	m := s.read.Load()
	return &tls.Config{
		Certificates: m.keys, ServerName: host, MinVersion: s.oldest, MaxVersion: s.newest, CipherSuites: s.ciphers,
		InsecureSkipVerify: true, // VerifyConnection does all of it
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

// notRevoked asks about a chain, if the settings want that.
func (s *Source) notRevoked(chain []*x509.Certificate) error {
	if s.revocation == nil {
		return nil
	}
	return s.revocation.check(chain)
}
