package login

import (
	"context"
	"strings"

	"github.com/conclave-project/conclave/internal/sasl"
)

// allowed refuses DIGEST-MD5 in FIPS mode.
func (f *File) allowed(section string) error {
	if f.settings.FIPS {
		return f.wrong(section, "DIGEST-MD5 is refused in fips-mode, which is on by default as in ZooKeeper 3.9: set fips-mode=false, or use Kerberos")
	}
	return nil
}

// digestServer knows the users of a section: user_NAME="PASSWORD".
func (f *File) digestServer(section string, m *module, service Service) (func() sasl.Server, error) {
	if err := f.allowed(section); err != nil {
		return nil, err
	}
	users := map[string]string{}
	for option, value := range m.options {
		if name, is := strings.CutPrefix(option, "user_"); is {
			users[name] = value
		}
	}
	if f.settings.SuperPassword != "" && service == Clients && users["super"] != "" {
		users["super"] = f.settings.SuperPassword
	}
	if len(users) == 0 {
		return nil, f.wrong(section, "it has no users: want options user_NAME=\"PASSWORD\"")
	}
	password := func(name string) (string, bool) {
		p, ok := users[name]
		return p, ok
	}
	return func() sasl.Server { return sasl.DigestServer(service.digest, password) }, nil
}

// digestClient proves that this server is the user in a section.
func (f *File) digestClient(section string, m *module, service Service) (Begin, error) {
	if err := f.allowed(section); err != nil {
		return nil, err
	}
	user, password := m.options["username"], m.options["password"]
	if user == "" || password == "" {
		return nil, f.wrong(section, "want username=\"NAME\" and password=\"PASSWORD\"")
	}
	return func(context.Context, string) (sasl.Client, error) {
		return sasl.DigestClient(service.digest, user, password), nil
	}, nil
}
