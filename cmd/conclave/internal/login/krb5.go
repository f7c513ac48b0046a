package login

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jcmturner/gokrb5/v8/config"
)

// krb5Conf is where Kerberos' configuration is.
func (s *Settings) krb5Conf() string {
	return cmp.Or(s.Krb5Conf, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
}

// DefaultRealm returns the default realm; "" if Kerberos is not configured.
func (s *Settings) DefaultRealm() (string, error) {
	c, err := loadKrb5(s.krb5Conf())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return c.LibDefaults.DefaultRealm, nil
}

// loadKrb5 reads Kerberos' configuration, as far as the library knows it.
func loadKrb5(path string) (c *config.Config, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on what it does not know
			c, err = nil, fmt.Errorf("%s cannot be read: %v", path, p)
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	p := profile{realms: map[string][]string{}, read: map[string]bool{}}
	if err := p.file(path); err != nil {
		return nil, err
	}
	if c, err = config.NewFromString(p.text()); err != nil {
		return nil, fmt.Errorf("%s, or a file that it includes: %w", path, err)
	}
	return c, nil
}
