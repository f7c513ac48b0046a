//go:build linux && conformance

package s3

import (
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
)

func TestStoreOnVersityGateway(t *testing.T) { testStore(t, "s3") }

func TestStoreOnMinIO(t *testing.T) { testStore(t, "minio") }

func testStore(t *testing.T, name string) {
	server := stores.Start(t, name)
	u, err := url.Parse(server.URL)
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
	options := Options{Bucket: u.Host, Poll: 50 * time.Millisecond}
	open := func(t testing.TB) *store {
		s, err := newStore(client, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, storetest.Suite{
		Open: func(t testing.TB) record.Store { return open(t) },
		Delete: func(t testing.TB, name string) {
			key := open(t).options.keyOf(name)
			if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &options.Bucket, Key: &key}); err != nil {
				t.Fatal(err)
			}
		},
	})
}
