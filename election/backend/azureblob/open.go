package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "azureblob://myaccount/mycontainer"

// Open returns the backend of a URL:
//
//	azureblob://ACCOUNT/CONTAINER[/PREFIX][?endpoint=URL][&poll=3s][&create=true]
//
// Credentials come from the environment, as with the az command: the connection string in
// AZURE_STORAGE_CONNECTION_STRING, the account's key in AZURE_STORAGE_KEY, or a signature in
// AZURE_STORAGE_SAS_TOKEN; without these, from azidentity's default chain: service principal,
// workload or managed identity, az login. A connection string of another account, or of another
// endpoint than a given one, is refused. Endpoint is that of the blob service with the account,
// for other clouds and emulators; the default is https://ACCOUNT.blob.core.windows.net. With
// create=true the first request creates the container if it does not exist; a container that was
// there and is gone is not created again. The returned function releases resources; call it when
// nothing of the backend runs any more.
func Open(_ context.Context, text string) (election.Backend, func() error, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	client, err := t.client(nil)
	if err == nil && t.create {
		client, err = t.client(&creation{name: t.container, container: client})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("azureblob: %q: %w", redact.URL(text), err)
	}
	backend, err := New(client, t.options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { return nil }, nil
}

// Connect returns the client and the options of a URL that Open takes, for programs that keep
// other things in such a container. With create=true it creates the container.
func Connect(ctx context.Context, text string) (*container.Client, Options, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, Options{}, err
	}
	client, err := t.client(nil)
	if err != nil {
		return nil, Options{}, fmt.Errorf("azureblob: %q: %w", redact.URL(text), err)
	}
	if t.create {
		_, err := client.Create(ctx, nil)
		if err != nil && !isCode(err, bloberror.ContainerAlreadyExists) {
			return nil, Options{}, fmt.Errorf("azureblob: %w", object{name: t.container}.explain("make the container", err))
		}
	}
	return client, t.options, nil
}

// target is the content of a URL.
type target struct {
	account, container, endpoint string
	create                       bool
	options                      Options
}

// client connects with the first credential found in the environment. If through is not nil,
// each request goes through it.
func (t target) client(through *creation) (*container.Client, error) {
	var options *container.ClientOptions
	if through != nil {
		options = &container.ClientOptions{ClientOptions: azcore.ClientOptions{PerCallPolicies: []policy.Policy{through}}}
	}
	address := t.endpoint + "/" + t.container
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		client, err := container.NewClientFromConnectionString(text, t.container, options)
		if err == nil {
			err = t.agrees(text, client.URL())
		}
		return client, err
	}
	if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
		credential, err := container.NewSharedKeyCredential(t.account, key)
		if err != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_KEY: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(address, credential, options)
	}
	if signature := os.Getenv("AZURE_STORAGE_SAS_TOKEN"); signature != "" {
		return container.NewClientWithNoCredential(address+"?"+strings.TrimPrefix(signature, "?"), options)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("no credentials: %w; log in with az, or set AZURE_STORAGE_KEY", err)
	}
	return container.NewClient(address, credential, options)
}

// agrees returns an error if a connection string leads to another place than the URL: programs
// with and without it would elect one leader each.
func (t target) agrees(text, address string) error {
	account := t.account
	address, _, _ = strings.Cut(address, "?")
	if host, _, found := strings.Cut(strings.TrimPrefix(address, "https://"), ".blob."); found {
		account = host
	}
	for part := range strings.SplitSeq(text, ";") {
		if name, found := strings.CutPrefix(part, "AccountName="); found {
			account = name
		}
	}
	switch {
	case account != t.account:
		return fmt.Errorf("AZURE_STORAGE_CONNECTION_STRING is that of account %s, not %s", account, t.account)
	case t.endpoint != endpointOf(t.account) && address != t.endpoint+"/"+t.container:
		return fmt.Errorf("AZURE_STORAGE_CONNECTION_STRING is for %s, not for the endpoint %s", address, t.endpoint)
	}
	return nil
}

func endpointOf(account string) string { return "https://" + account + ".blob.core.windows.net" }

// creation creates a container when the first request finds none. So a service that does not
// answer is waited for like any other, and a program that finds the container there needs no
// permission to create it.
type creation struct {
	name      string
	container *container.Client
	seen      atomic.Bool
}

// Do sends a request, and again once the container is there.
func (c *creation) Do(request *policy.Request) (*http.Response, error) {
	response, err := request.Next()
	switch {
	case err != nil || c.seen.Load():
		return response, err
	case response.Header.Get("x-ms-error-code") != string(bloberror.ContainerNotFound):
		if response.StatusCode < http.StatusInternalServerError {
			c.seen.Store(true)
		}
		return response, nil
	}
	response.Body.Close()
	if _, err := c.container.Create(request.Raw().Context(), nil); err != nil && !isCode(err, bloberror.ContainerAlreadyExists) {
		err = object{name: c.name}.explain("make the container", err)
		if errors.Is(err, election.ErrPermanent) {
			err = election.Permanent(errors.New(err.Error())) // nobody may take it for the answer to the request
		}
		return nil, err
	}
	if err := request.RewindBody(); err != nil {
		return nil, err
	}
	return request.Next()
}

// form describes the URLs.
var form = storeurl.Form{Backend: "azureblob", Schemes: []string{"azureblob"}, Example: URLExample, Credentials: "the environment"}

func parseURL(text string) (t target, err error) {
	u, values, err := form.Parse(text)
	if err == nil && (u.Host == "" || strings.ContainsAny(u.Host, ".:")) {
		err = errors.New("it names no account (the address of the service goes into ?endpoint=)")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	t.account, t.endpoint = u.Host, endpointOf(u.Host)
	t.container, t.options.Prefix, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if t.container == "" {
		return t, form.Refuse(text, errors.New("it names no container"))
	}
	err = storeurl.Parameters{
		"endpoint": storeurl.Text(&t.endpoint),
		"create":   storeurl.Bool(&t.create),
		"poll":     storeurl.Duration(&t.options.Poll),
	}.Read(values)
	t.endpoint = strings.TrimSuffix(t.endpoint, "/")
	if err == nil {
		_, err = New(&container.Client{}, t.options)
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	return t, nil
}
