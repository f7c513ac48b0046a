//go:build linux && conformance

package s3

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election/backend/internal/objects"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
)

func TestStoreOnVersityGateway(t *testing.T) { testStore(t, "s3") }

func TestStoreOnMinIO(t *testing.T) { testStore(t, "minio") }

func testStore(t *testing.T, name string) {
	server := stores.Start(t, name)
	storetest.Run(t, storetest.Suite{
		Open: func(t testing.TB) record.Store { return storeAt(t, server, server.Addr) },
		Delete: func(t testing.TB, name string) {
			s := storeAt(t, server, server.Addr)
			key := objects.Key(s.options.Prefix, name)
			if _, err := s.client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.options.Bucket, Key: &key}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// storeAt returns a store on a server that is reached at the given address.
func storeAt(t testing.TB, server *stores.Server, addr string) *store {
	t.Helper()
	u, err := url.Parse(strings.Replace(server.URL, server.Addr, addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(u.Query().Get("region")))
	if err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = true
		o.BaseEndpoint = aws.String(u.Query().Get("endpoint"))
	})
	s, err := newStore(client, Options{Bucket: u.Host, Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWriteWhoseAnswerIsLostIsNoConflict: its outcome is unknown, and the next
// read reveals it.
func TestWriteWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	server := stores.Start(t, "s3")
	link, err := server.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	far := storeAt(t, server, link.Addr)
	far.probing.Skip()
	storetest.LostAnswer(t, link, storeAt(t, server, server.Addr), far)
}
