package command

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// authFlags say which credentials a command presents to ZooKeeper's servers. Everybody on
// the machine can read a command line; a file has permissions.
type authFlags struct {
	auth     []string
	authFile fileFlag
	content  []byte // of the file, once it is read
}

// fileFlag is a file named by a flag of a command, or else by the environment. Before flags
// are added there is none: a server's own connections use no such file.
type fileFlag struct {
	set      string
	variable string // the environment variable
}

func (f *fileFlag) add(c *cobra.Command, name, variable, usage string) {
	f.variable = variable
	c.Flags().StringVar(&f.set, name, "", usage+" (default $"+variable+")")
}

// path returns "" if no file is named.
func (f *fileFlag) path() string {
	if f.set == "" && f.variable != "" {
		return os.Getenv(f.variable)
	}
	return f.set
}

func (f *authFlags) add(c *cobra.Command, shown string) {
	c.Flags().StringArrayVar(&f.auth, "auth", nil, "credential to show"+shown+", as digest:user:password; may be repeated. Other users of this machine can see it: keep important ones in --auth-file")
	f.authFile.add(c, "auth-file", "CONCLAVE_AUTH_FILE", "`FILE` with such credentials, one per line")
}

// given returns the flag that is set; "" for none.
func (f *authFlags) given() string {
	switch {
	case len(f.auth) > 0:
		return "--auth"
	case f.authFile.set != "":
		return "--auth-file"
	}
	return ""
}

// credentials returns the credentials of the flags or, if there are none, of the file that
// the environment names.
func (f *authFlags) credentials() (all []client.Credential, err error) {
	for _, text := range f.auth {
		credential, err := cli.ParseAuth(text)
		if err != nil {
			return nil, err
		}
		all = append(all, credential)
	}
	path := f.authFile.path()
	if path == "" {
		return all, nil
	}
	const hint = "--auth-file or CONCLAVE_AUTH_FILE names a file with lines such as digest:USER:PASSWORD"
	if f.content == nil { // a pipe can be read only once
		f.content, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usage(hint, "%s: no such file", path)
	} else if err != nil {
		return nil, cli.Usage(hint, "%w", err)
	}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(f.content), "\ufeff")) { // editors on Windows write a byte order mark
		number++
		line = strings.TrimRight(line, "\r\n") // a password may begin or end with a space
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		credential, err := cli.ParseAuth(line)
		if err != nil {
			return nil, cli.Usage(hint, "%s:%d: a credential has no scheme", path, number)
		}
		all = append(all, credential)
	}
	if len(all) == len(f.auth) {
		return nil, cli.Usage(hint, "%s has no credential", path)
	}
	return all, nil
}
