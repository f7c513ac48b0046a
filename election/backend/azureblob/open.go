package azureblob

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "azureblob://myaccount/mycontainer"

// Open returns the backend of a URL:
//
//	azureblob://ACCOUNT/CONTAINER[/PREFIX][?endpoint=URL][&poll=3s][&create=true]
//
// Credentials come from the environment, as with the az command: the
// connection string in AZURE_STORAGE_CONNECTION_STRING, the account's key in
// AZURE_STORAGE_KEY, or a signature in AZURE_STORAGE_SAS_TOKEN; without them
// from azidentity's default chain: service principal, workload or managed
// identity, az login. Endpoint is that of the blob service with the account,
// for other clouds and emulators; the default is
// https://ACCOUNT.blob.core.windows.net. With create=true the container is
// made if it does not exist. The function returned gives resources back; it
// may be called once nothing of the backend runs.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	t, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	client, err := t.client()
	if err != nil {
		return nil, nil, fmt.Errorf("azureblob: %q: %w", redact.URL(text), err)
	}
	if t.create {
		_, err := client.Create(ctx, nil)
		if err != nil && !isCode(err, bloberror.ContainerAlreadyExists) {
			return nil, nil, fmt.Errorf("azureblob: %w", object{name: t.container}.explain("make the container", err))
		}
	}
	backend, err := New(client, t.options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { return nil }, nil
}

// target is what a URL says.
type target struct {
	account, container, endpoint string
	create                       bool
	options                      Options
}

// client connects with the first credential that the environment has.
func (t target) client() (*container.Client, error) {
	address := t.endpoint + "/" + t.container
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		return container.NewClientFromConnectionString(text, t.container, nil)
	}
	if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
		credential, err := container.NewSharedKeyCredential(t.account, key)
		if err != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_KEY: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(address, credential, nil)
	}
	if signature := os.Getenv("AZURE_STORAGE_SAS_TOKEN"); signature != "" {
		return container.NewClientWithNoCredential(address+"?"+strings.TrimPrefix(signature, "?"), nil)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("no credentials: %w; log in with az, or set AZURE_STORAGE_KEY", err)
	}
	return container.NewClient(address, credential, nil)
}

func parseURL(text string) (target, error) {
	var t target
	bad := func(format string, args ...any) (target, error) {
		return t, election.Permanent(fmt.Errorf("azureblob: %q: %w; write for example %s", redact.URL(text), fmt.Errorf(format, args...), URLExample))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("not a URL")
	case u.Scheme != "azureblob":
		return bad("the scheme is not azureblob")
	case u.Host == "" || strings.ContainsAny(u.Host, ".:"):
		return bad("it names no account (the address of the service goes into ?endpoint=)")
	case u.User != nil:
		return bad("credentials are not taken from a URL, but from the environment")
	}
	t.account = u.Host
	t.container, t.options.Prefix, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if t.container == "" {
		return bad("it names no container")
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			t.endpoint = strings.TrimSuffix(value, "/")
		case "create":
			t.create, err = strconv.ParseBool(value)
		case "poll":
			t.options.Poll, err = time.ParseDuration(value)
		default:
			return bad("unknown parameter %q", name)
		}
		if err != nil {
			return bad("parameter %s: %w", name, err)
		}
	}
	t.endpoint = cmp.Or(t.endpoint, "https://"+t.account+".blob.core.windows.net")
	if _, err := New(&container.Client{}, t.options); err != nil {
		return bad("%w", err)
	}
	return t, nil
}
