//go:build linux && conformance

package gcs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/gcs"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) { storetest.Opener(gcs.Open).Main(m) }

// TestGCSBackendPassesTheSuite: the emulator is not restarted, because it would forget
// all elections, which the service does not.
func TestGCSBackendPassesTheSuite(t *testing.T) {
	server := stores.Start(t, "gcs")
	var prefixes atomic.Int64
	electiontest.Run(t, electiontest.Suite{
		Store: strings.Replace(server.Version, "fake-gcs-server-", "fake-gcs-server ", 1),
		Lease: gcs.LeaseMin, Elections: 500,
		Open: open,
		URL: func(testing.TB) string {
			prefix := fmt.Sprintf("/store-%d?", prefixes.Add(1))
			return strings.Replace(server.URL, "?", prefix, 1) + "&poll=100ms"
		},
		Proxy: server.Proxy,
		Delete: func(t testing.TB, url, name string) {
			root, prefix := objects(t, url)
			ask(t, http.MethodDelete, root+"/"+escape(prefix+"/"+name+".json"), http.StatusOK)
		},
		Left: left,
	})
}

// left counts the holders and candidates in all objects of the URL.
func left(t testing.TB, text string) int {
	root, prefix := objects(t, text)
	var list struct{ Items []struct{ Name string } }
	if err := json.Unmarshal(ask(t, http.MethodGet, root+"?prefix="+escape(prefix), http.StatusOK), &list); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, object := range list.Items {
		data := string(ask(t, http.MethodGet, root+"/"+escape(object.Name)+"?alt=media", http.StatusOK))
		count += strings.Count(data, `"holder":`) + strings.Count(data, `"next":`)
	}
	return count
}

func open(t testing.TB, url string) election.Backend { return storetest.Opener(gcs.Open).Open(t, url) }

// objects returns the URL of the objects of a bucket, and the prefix of the elections.
func objects(t testing.TB, text string) (root, prefix string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("endpoint") + "/storage/v1/b/" + u.Host + "/o", strings.TrimPrefix(u.Path, "/")
}

func escape(text string) string { return url.PathEscape(text) }

// ask makes a request that is none of the candidates'.
func ask(t testing.TB, method, url string, status int) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(awaittest.Within(t), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("%s %s: %s, %v\n%.200s", method, url, answer.Status, err, text)
	}
	return text
}
