package azureblob

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
)

func TestURLSaysWhereTheElectionsAre(t *testing.T) {
	got, err := parseURL("azureblob://me/box/a/b?endpoint=http://127.0.0.1:10000/me/&poll=3s&create=true")
	want := target{account: "me", container: "box", endpoint: "http://127.0.0.1:10000/me", create: true,
		options: Options{Prefix: "a/b", Poll: 3 * time.Second}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = parseURL("azureblob://me/box")
	if err != nil || got.endpoint != "https://me.blob.core.windows.net" || got.options.Prefix != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "azureblob", URLExample)
}

func TestBadURLShowsAGoodOne(t *testing.T) {
	for _, text := range []string{
		"", "me/box", "azureblob://", "azureblob://me", "azureblob://me/", "azureblob:///box", "https://me/box",
		"azureblob://me.blob.core.windows.net/box", "azureblob://127.0.0.1:10000/me", "azureblob://me:key@me/box",
		"azureblob://me/box/a/", "azureblob://me/box/a//b", "azureblob://me/box?create=perhaps",
		"azureblob://me/box?poll=3", "azureblob://me/box?poll=-3s", "azureblob://me/box?creat=true", "%zz",
	} {
		_, _, err := Open(t.Context(), text)
		if err == nil || !strings.Contains(err.Error(), URLExample) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseURL(URLExample); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestCredentialsComeFromTheEnvironment(t *testing.T) {
	const url = "azureblob://me/box"
	for _, name := range []string{"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AZURE_STORAGE_KEY", "not base64!")
	if _, _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "AZURE_STORAGE_KEY") {
		t.Errorf("a bad key: %v", err)
	}
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")
	got, err := parseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := got.client(nil)
	if err != nil || client.URL() != "https://me.blob.core.windows.net/box?sv=1&sig=x" {
		t.Errorf("a signature: %v, %v", client.URL(), err)
	}
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=me;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/me")
	client, err = got.client(nil)
	if err != nil || client.URL() != "http://127.0.0.1:1/me/box" {
		t.Errorf("a connection string: %v, %v", client.URL(), err)
	}
}

// TestConnectionStringOfAnotherPlaceIsRefused: a program where it is set, and one where it is
// not, would elect one leader each with the same URL.
func TestConnectionStringOfAnotherPlaceIsRefused(t *testing.T) {
	const me, signed = "AccountName=me;AccountKey=a2V5;", "SharedAccessSignature=sv=1&sig=x"
	for _, one := range []struct {
		url, text string
		refused   bool
	}{
		{"azureblob://you/box", me + "EndpointSuffix=core.windows.net", true},
		{"azureblob://me/box", me + "EndpointSuffix=core.windows.net", false},
		{"azureblob://me/box", me + "EndpointSuffix=core.chinacloudapi.cn", false},
		{"azureblob://me/box?endpoint=http://127.0.0.1:2/me/", me + "BlobEndpoint=http://127.0.0.1:1/me", true},
		{"azureblob://me/box?endpoint=http://127.0.0.1:1/me/", me + "BlobEndpoint=http://127.0.0.1:1/me/", false},
		{"azureblob://you/box", "BlobEndpoint=https://me.blob.core.windows.net;" + signed, true},
		{"azureblob://me/box", "BlobEndpoint=https://me.blob.core.windows.net/;" + signed, false},
		{"azureblob://me/box", "BlobEndpoint=https://blobs.example.com/;" + signed, false},
	} {
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING", one.text)
		_, _, err := Open(t.Context(), one.url)
		if refused := err != nil && strings.Contains(err.Error(), "AZURE_STORAGE_CONNECTION_STRING"); refused != one.refused {
			t.Errorf("%s with %s: %v", one.url, one.text, err)
		}
	}
}
