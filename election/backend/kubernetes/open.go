package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/redact"
)

// Scheme is the scheme of the URLs that Open takes.
const Scheme = "kubernetes"

// good shows correct URLs in errors.
const good = "kubernetes:///, kubernetes://NAMESPACE or kubernetes://NAMESPACE?context=NAME"

// Open returns the backend of a URL "kubernetes://NAMESPACE", and a function that closes it. It
// finds the API server as kubectl does: by $KUBECONFIG or ~/.kube/config, and in a pod by its
// service account. If the URL has no namespace, that of the kubeconfig's context or of the pod is
// used. Parameters:
//
//	context=NAME       context of the kubeconfig
//	kubeconfig=FILE    another kubeconfig
//	server=URL         another address of the API server
//	label=KEY=VALUE    label of the Leases; may be given several times
//	events=off         record no Events on the Leases
func Open(_ context.Context, address string) (election.Backend, func() error, error) {
	config, options, err := parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("kubernetes: %w", err)
	}
	backend, err := New(config, options)
	if err != nil {
		return nil, nil, err
	}
	return backend, backend.Close, nil
}

// parse reads the URL and loads the kubeconfig.
func parse(address string) (*rest.Config, Options, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, Options{}, election.Permanent(fmt.Errorf("%q is not a URL; write %s", redact.URL(address), good))
	}
	if err := check(u); err != nil {
		return nil, Options{}, election.Permanent(fmt.Errorf("URL %q %w; write %s", redact.URL(address), err, good))
	}
	query := u.Query()
	options := Options{Namespace: u.Host, NoEvents: query.Get("events") == "off"}
	for _, pair := range query["label"] {
		key, value, _ := strings.Cut(pair, "=")
		options.Labels = with(options.Labels, map[string]string{key: value})
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = query.Get("kubeconfig")
	overrides := &clientcmd.ConfigOverrides{CurrentContext: query.Get("context")}
	overrides.ClusterInfo.Server = query.Get("server")
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, Options{}, fmt.Errorf("find the API server: %w; set KUBECONFIG or give ?kubeconfig=FILE, "+
			"or run in a pod with a service account", err)
	}
	if options.Namespace == "" {
		if options.Namespace, _, err = loader.Namespace(); err != nil {
			return nil, Options{}, fmt.Errorf("find the namespace: %w; write kubernetes://NAMESPACE", err)
		}
	}
	return config, options, nil
}

// check returns an error if a URL is wrong.
func check(u *url.URL) error {
	if u.Scheme != Scheme {
		return fmt.Errorf("has the scheme %q, not %q", u.Scheme, Scheme)
	}
	if u.User != nil {
		return errors.New("holds credentials, which belong into the kubeconfig")
	}
	if u.Port() != "" || u.Opaque != "" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return errors.New("has more than a namespace and parameters")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	for key, values := range query {
		switch {
		case !slices.Contains([]string{"context", "kubeconfig", "server", "label", "events"}, key):
			return fmt.Errorf("has the unknown parameter %q", key)
		case key == "events" && values[0] != "on" && values[0] != "off":
			return fmt.Errorf("has events=%s, which is on or off", values[0])
		case key != "label" && (len(values) > 1 || values[0] == ""):
			return fmt.Errorf("has %d values for %s, or an empty one", len(values), key)
		}
	}
	return nil
}
