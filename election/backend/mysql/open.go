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
	"github.com/go-sql-driver/mysql"
)

// URLExample is a URL that Open takes.
const URLExample = "mysql://user@host:3306/database?tls=true"

// PasswordVariable is the environment variable with the password, if the URL
// has none. MySQL's own programs take it from there, too.
const PasswordVariable = "MYSQL_PWD"

// connectionsMax bounds the pool of Open.
const connectionsMax = 4

// Open returns a backend on the database of a URL, and what closes it:
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
// The password is that of the URL, or of PasswordVariable. Open makes no
// connection.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	config, options, err := parse(text)
	if err != nil {
		return nil, nil, election.Permanent(fmt.Errorf("mysql: URL: %w; write for example %s", err, URLExample))
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, election.Permanent(fmt.Errorf("mysql: %w; write for example %s", err, URLExample))
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(time.Minute)
	backend, err := New(db, options)
	if err != nil {
		err = election.Permanent(fmt.Errorf("%w; write for example %s", err, URLExample))
		return nil, nil, errors.Join(err, db.Close())
	}
	return backend, func() error { return errors.Join(backend.Close(), db.Close()) }, nil
}

// parse reads a URL.
func parse(text string) (*mysql.Config, Options, error) {
	var options Options
	u, err := url.Parse(text)
	if err != nil {
		return nil, options, hideURL(err)
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return nil, options, fmt.Errorf("the scheme is %q", u.Scheme)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, options, err
	}
	settings := map[string]string{}
	for name, values := range query {
		if len(values) != 1 || values[0] == "" {
			return nil, options, fmt.Errorf("parameter %q has %d values or an empty one", name, len(values))
		}
		settings[name] = values[0]
	}
	config := mysql.NewConfig()
	config.Logger = &mysql.NopLogger{} // it would write into the program's standard error
	config.InterpolateParams = true    // one round trip for each statement
	config.Timeout = timeoutDefault
	// With this the driver gives each connection a copy of the configuration.
	// Without, it turns TLS off in the one of all when a server has none, with
	// tls=preferred: a data race, and the next server is spoken to in the clear.
	own := func(context.Context, *mysql.Config) error { return nil }
	if err := config.Apply(mysql.BeforeConnect(own)); err != nil {
		return nil, options, err
	}
	if err := address(config, u, take(settings, "socket")); err != nil {
		return nil, options, err
	}
	options.Table = take(settings, "table")
	if _, err := quoteTable(cmp.Or(options.Table, TableDefault)); err != nil {
		return nil, options, err
	}
	for name, to := range map[string]*time.Duration{"lease-max": &options.LeaseMax, "poll": &options.Poll, "timeout": &options.Timeout} {
		value := take(settings, name)
		if value == "" {
			continue
		}
		if *to, err = time.ParseDuration(value); err != nil || *to <= 0 {
			return nil, options, fmt.Errorf("%s=%q is no duration above zero, such as 15s", name, value)
		}
	}
	if err := secure(config, settings); err != nil {
		return nil, options, err
	}
	for name := range settings {
		return nil, options, fmt.Errorf("unknown parameter %q", name)
	}
	return config, options, nil
}

// take returns a parameter and deletes it.
func take(settings map[string]string, name string) string {
	value := settings[name]
	delete(settings, name)
	return value
}

// address reads where the server is, and who we are there.
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

// secure reads the parameters of TLS.
func secure(config *mysql.Config, settings map[string]string) error {
	mode, authorities := take(settings, "tls"), take(settings, "tls-ca")
	certificate, key := take(settings, "tls-cert"), take(settings, "tls-key")
	files := authorities != "" || certificate != "" || key != ""
	switch mode {
	case "true", "":
		if !files {
			config.TLSConfig = cmp.Or(mode, "preferred")
			return nil
		}
	case "preferred", "skip-verify", "false":
		if files {
			return fmt.Errorf("tls=%s does without files; write tls=true or leave them out", mode)
		}
		config.TLSConfig = mode
		return nil
	default:
		return fmt.Errorf("tls=%q is none of true, preferred, skip-verify, false", mode)
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pem, err := os.ReadFile(authorities)
		if err != nil {
			return fmt.Errorf("tls-ca: %w", err)
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls-ca: %s has no certificate in PEM", authorities)
		}
	}
	if (certificate == "") != (key == "") {
		return errors.New("tls-cert and tls-key go together")
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("tls-cert, tls-key: %w", err)
		}
		config.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// hideURL keeps a password out of the message.
func hideURL(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}
