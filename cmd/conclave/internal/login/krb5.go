package login

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// krb5Conf is where Kerberos' configuration is.
func (s *Settings) krb5Conf() string {
	return cmp.Or(s.Krb5Conf, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
}

// DefaultRealm returns the realm of names without one; "" if Kerberos is not configured.
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
		if p := recover(); p != nil { // the library does so at what it does not know
			c, err = nil, fmt.Errorf("%s cannot be read: %v", path, p)
		}
	}()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if c, err = config.NewFromString(known(string(text))); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// known leaves out the blocks whose lines the library takes for those of the block around
// them, within a realm and in [libdefaults], and what was for version 4.
func known(text string) string {
	var left strings.Builder
	section, depth := "", 0
	for line := range strings.Lines(text) {
		bare, _, _ := strings.Cut(line, "#")
		bare, _, _ = strings.Cut(bare, ";")
		bare = strings.TrimSpace(bare)
		deepest := 0
		if section == "[realms]" {
			deepest = 1
		}
		opens, closes := strings.HasSuffix(bare, "{"), strings.HasPrefix(bare, "}")
		switch {
		case opens:
			depth++
		case depth == 0 && strings.HasPrefix(bare, "["):
			section = bare
		}
		if depth <= deepest && !strings.HasPrefix(bare, "v4_") {
			left.WriteString(line)
		}
		if closes && depth > 0 {
			depth--
		}
	}
	return left.String()
}
