package azureblob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

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
// workload or managed identity, az login. Endpoint is that of the blob service with the account,
// for other clouds and emulators; the default is https://ACCOUNT.blob.core.windows.net. With
// create=true the container is created if it does not exist. The returned function releases
// resources; call it when nothing of the backend runs any more.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	client, options, err := Connect(ctx, text)
	if err != nil {
		return nil, nil, err
	}
	backend, err := New(client, options)
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
	client, err := t.client()
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

// form is what the URLs look like.
var form = storeurl.Form{Backend: "azureblob", Schemes: []string{"azureblob"}, Example: URLExample, Credentials: "the environment"}

func parseURL(text string) (t target, err error) {
	u, values, err := form.Parse(text)
	if err == nil && (u.Host == "" || strings.ContainsAny(u.Host, ".:")) {
		err = errors.New("it names no account (the address of the service goes into ?endpoint=)")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	t.account, t.endpoint = u.Host, "https://"+u.Host+".blob.core.windows.net"
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
