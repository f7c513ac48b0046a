package mysql

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/go-sql-driver/mysql"
)

// URLExample is a URL that Open takes.
const URLExample = "mysql://user@host:3306/database?tls=true"

// PasswordVariable is the environment variable with the password, if the URL has none. MySQL's
// own programs use it too.
const PasswordVariable = "MYSQL_PWD"

// connectionsMax bounds the pool of Open.
const connectionsMax = 4

// Open returns a backend on the database of a URL, and a function that closes it:
//
//	mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE, or mariadb://
//	table=NAME        see Options.Table
//	lease-max=15s     see Options.LeaseMax
//	poll=500ms        see Options.Poll
//	timeout=5s        see Options.Timeout
//	socket=PATH       a Unix socket; the URL then has no host
//	tls=MODE          true: TLS or nothing; preferred, the default: TLS if the
//	                  server has it, and nobody's certificate is checked;
//	                  skip-verify: TLS, unchecked; false: none
//	tls-ca=FILE       the authorities that are trusted, PEM; only with tls=true,
//	                  which it implies
//	tls-cert=FILE, tls-key=FILE   the client's certificate; likewise
//
// The password is that in the URL, or in PasswordVariable. Open does not connect.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	config, options, err := parse(text)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, form.Refuse(text, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(time.Minute)
	backend, err := New(db, options)
	if err != nil {
		return nil, nil, errors.Join(form.Refuse(text, err), db.Close())
	}
	return backend, func() error { return errors.Join(backend.Close(), db.Close()) }, nil
}

// form describes the URLs.
var form = storeurl.Form{Backend: "mysql", Schemes: []string{"mysql", "mariadb"}, Example: URLExample}

// parse reads a URL.
func parse(text string) (*mysql.Config, Options, error) {
	var options Options
	var socket string
	var with security
	u, values, err := form.Parse(text)
	if err == nil {
		err = storeurl.Parameters{
			"socket":    storeurl.Text(&socket),
			"table":     storeurl.Text(&options.Table),
			"lease-max": storeurl.Duration(&options.LeaseMax),
			"poll":      storeurl.Duration(&options.Poll),
			"timeout":   storeurl.Duration(&options.Timeout),
			"tls":       storeurl.Text(&with.mode),
			"tls-ca":    storeurl.Text(&with.authorities),
			"tls-cert":  storeurl.Text(&with.certificate),
			"tls-key":   storeurl.Text(&with.key),
		}.Read(values)
	}
	if err != nil {
		return nil, options, err
	}
	config := mysql.NewConfig()
	config.Logger = &mysql.NopLogger{} // else it writes to the program's standard error
	config.InterpolateParams = true    // one round trip for each statement
	config.Timeout = timeoutDefault
	// With this the driver copies the configuration for each connection. Otherwise, with
	// tls=preferred, it turns TLS off in the shared configuration when a server has none: a
	// data race, and the connection to the next server is not encrypted.
	own := func(context.Context, *mysql.Config) error { return nil }
	if err := config.Apply(mysql.BeforeConnect(own)); err != nil {
		return nil, options, err
	}
	if err := address(config, u, socket); err != nil {
		return nil, options, err
	}
	if _, err := quoteTable(cmp.Or(options.Table, TableDefault)); err != nil {
		return nil, options, err
	}
	return config, options, with.apply(config)
}

// address reads the server's address and the user from the URL.
func address(config *mysql.Config, u *url.URL, socket string) error {
	config.User = u.User.Username()
	if config.User == "" {
		return errors.New("it names no user")
	}
	password, given := u.User.Password()
	if !given {
		password = os.Getenv(PasswordVariable)
	}
	config.Passwd = password
	config.DBName = strings.TrimPrefix(u.Path, "/")
	if config.DBName == "" || strings.Contains(config.DBName, "/") {
		return fmt.Errorf("%q is no name of a database", config.DBName)
	}
	switch {
	case socket != "" && u.Host != "":
		return errors.New("it names a host and a socket")
	case socket != "":
		config.Net, config.Addr = "unix", socket
	case u.Hostname() == "" || strings.Contains(u.Host, ","):
		return errors.New("it has to name one host, an address that follows the primary if there are several")
	default:
		config.Net, config.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	}
	return nil
}

// security is the parameters for TLS.
type security struct{ mode, authorities, certificate, key string }

func (s security) apply(config *mysql.Config) error {
	files := s.authorities != "" || s.certificate != "" || s.key != ""
	switch s.mode {
	case "true", "":
		if !files {
			config.TLSConfig = cmp.Or(s.mode, "preferred")
			return nil
		}
	case "preferred", "skip-verify", "false":
		if files {
			return fmt.Errorf("tls=%s does without files; write tls=true or leave them out", s.mode)
		}
		config.TLSConfig = s.mode
		return nil
	default:
		return fmt.Errorf("tls=%q is none of true, preferred, skip-verify, false", s.mode)
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.authorities != "" {
		pem, err := os.ReadFile(s.authorities)
		if err != nil {
			return fmt.Errorf("tls-ca: %w", err)
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls-ca: %s has no certificate in PEM", s.authorities)
		}
	}
	if (s.certificate == "") != (s.key == "") {
		return errors.New("tls-cert and tls-key go together")
	}
	if s.certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.certificate, s.key)
		if err != nil {
			return fmt.Errorf("tls-cert, tls-key: %w", err)
		}
		config.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}
