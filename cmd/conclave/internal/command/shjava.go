package command

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
)

// javaKeys are the properties of Java's clients that configure TLS, without their prefix
// zookeeper.ssl.
var javaKeys = []struct {
	key   string
	field func(*secure.Settings) *string
}{
	{"protocol", func(s *secure.Settings) *string { return &s.Protocol }},
	{"enabledProtocols", func(s *secure.Settings) *string { return &s.Protocols }},
	{"ciphersuites", func(s *secure.Settings) *string { return &s.Ciphers }},
	{"keyStore.location", func(s *secure.Settings) *string { return &s.Key.Location }},
	{"keyStore.password", func(s *secure.Settings) *string { return &s.Key.Password }},
	{"keyStore.passwordPath", func(s *secure.Settings) *string { return &s.Key.PasswordPath }},
	{"keyStore.type", func(s *secure.Settings) *string { return &s.Key.Type }},
	{"trustStore.location", func(s *secure.Settings) *string { return &s.Trust.Location }},
	{"trustStore.password", func(s *secure.Settings) *string { return &s.Trust.Password }},
	{"trustStore.passwordPath", func(s *secure.Settings) *string { return &s.Trust.PasswordPath }},
	{"trustStore.type", func(s *secure.Settings) *string { return &s.Trust.Type }},
}

// javaIgnored are keys that have no meaning here.
var javaIgnored = []string{"zookeeper.clientCnxnSocket", "zookeeper.fips-mode"}

// javaClient reads the properties of a Java client: whether it uses TLS, and how.
func javaClient(file string) (secured bool, settings secure.Settings, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, settings, fmt.Errorf("read -client-configuration: %w", err)
	}
	entries, err := zoocfg.Parse(file, text)
	for _, e := range entries {
		err = errors.Join(err, setJava(&settings, &secured, e))
	}
	return secured, settings, err
}

// setJava takes one property.
func setJava(settings *secure.Settings, secured *bool, e zoocfg.Entry) error {
	switch {
	case e.Key == "zookeeper.client.secure":
		*secured = strings.EqualFold(e.Value, "true")
		return nil
	case e.Key == "zookeeper.ssl.hostnameVerification":
		settings.NoHostCheck = strings.EqualFold(e.Value, "false")
		return nil
	case slices.Contains(javaIgnored, e.Key):
		return nil
	}
	for _, one := range javaKeys {
		if e.Key == "zookeeper.ssl."+one.key {
			*one.field(settings) = e.Value
			return nil
		}
	}
	return fmt.Errorf("%s:%d: %s is not known here", e.File, e.Line, e.Key)
}
