package gcs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
)

// URLExample is a URL that Open takes.
const URLExample = "gs://my-bucket/elections"

// Open returns the backend of a URL:
//
//	gs://BUCKET[/PREFIX][?endpoint=URL][&anonymous=true][&poll=2s]
//
// Credentials are Google's Application Default Credentials: the file that
// GOOGLE_APPLICATION_CREDENTIALS names (the key of a service account, or the configuration of a
// workload identity federation), that of gcloud auth application-default login, or the service
// account of the machine, the Pod or the function, from the metadata server. With anonymous=true
// there are none. Endpoint is a private endpoint of the service, or an emulator; one without TLS
// is accepted only with anonymous=true. The returned function closes connections; call it when
// nothing of the backend runs any more.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	target, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	connections := newTransport()
	client := &http.Client{Transport: connections}
	if !target.anonymous {
		source, err := findCredentials(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("gcs: no credentials: %w (%s, or add anonymous=true to the URL for an emulator)", err, hintCredentials)
		}
		client.Transport = &transport{tokens: &tokens{source: source}, base: connections}
	}
	backend, err := New(client, target.options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { connections.CloseIdleConnections(); return nil }, nil
}

// newTransport uses HTTP/1.1: a request without an answer in time then closes its
// connection, and the next one uses another.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, Protocols: protocols,
		TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8}
}

// findCredentials returns the source of tokens that the environment names. The source
// remains usable after the context of the search has ended.
func findCredentials(ctx context.Context) (oauth2.TokenSource, error) {
	type found struct {
		credentials *google.Credentials
		err         error
	}
	done := make(chan found, 1)
	go func() { // the search asks the network for a metadata server, without a context
		within := context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: fetchWithin})
		credentials, err := google.FindDefaultCredentialsWithParams(within, google.CredentialsParams{
			Scopes: []string{Scope}, EarlyTokenRefresh: earlyToken})
		done <- found{credentials, err}
	}()
	select {
	case f := <-done:
		if f.err != nil {
			return nil, f.err
		}
		return f.credentials.TokenSource, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// target is the content of a URL.
type target struct {
	options   Options
	anonymous bool
}

// form describes the URLs.
var form = storeurl.Form{Backend: "gcs", Schemes: []string{"gs"}, Example: URLExample, Credentials: "the environment"}

func parseURL(text string) (t target, err error) {
	u, values, err := form.Parse(text)
	if err == nil && (u.Host == "" || strings.Contains(u.Host, ":")) {
		err = errors.New("it names no bucket (the address of an emulator goes into ?endpoint=)")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	t.options = Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	err = storeurl.Parameters{
		"endpoint":  storeurl.Text(&t.options.Endpoint),
		"anonymous": storeurl.Bool(&t.anonymous),
		"poll":      storeurl.Duration(&t.options.Poll),
	}.Read(values)
	if err == nil {
		t.options, err = t.options.validate()
	}
	if err == nil && strings.HasPrefix(t.options.Endpoint, "http:") && !t.anonymous {
		err = errors.New("credentials are not sent without TLS; write endpoint=https://..., or add anonymous=true for an emulator")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	return t, nil
}
