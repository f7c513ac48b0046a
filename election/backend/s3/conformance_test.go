//go:build linux && conformance

package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/backend/s3"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "conclave-test", "AWS_SECRET_ACCESS_KEY": "conclave-test-secret",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		_ = os.Setenv(name, value) // the processes of the suite inherit it
	}
	storetest.Opener(s3.Open).Main(m)
}

func TestS3BackendPassesTheSuiteOnVersityGateway(t *testing.T) { pass(t, "s3", "") }

func TestS3BackendPassesTheSuiteOnMinIO(t *testing.T) { pass(t, "minio", "MinIO ") }

// pass runs the suite on a store; title precedes its version.
func pass(t *testing.T, name, title string) {
	server := stores.Start(t, name)
	var prefixes atomic.Int64
	electiontest.Run(t, electiontest.Suite{
		Store: strings.Replace(title+server.Version, "versitygw-", "versitygw ", 1),
		Lease: 2 * time.Second, Elections: 500,
		Open: open,
		URL: func(testing.TB) string {
			prefix := fmt.Sprintf("/store-%d?", prefixes.Add(1))
			return strings.Replace(server.URL, "?", prefix, 1) + "&poll=100ms"
		},
		Proxy: server.Proxy,
		Delete: func(t testing.TB, url, name string) {
			client, bucket, prefix := operator(t, url)
			key := prefix + "/" + name + ".json"
			if _, err := client.DeleteObject(awaittest.Within(t), &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
				t.Fatal(err)
			}
		},
		Left: left,
		Restart: func(t testing.TB, _ string) {
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// left counts the holders and candidates in all objects of the URL.
func left(t testing.TB, url string) int {
	client, bucket, prefix := operator(t, url)
	objects, err := client.ListObjectsV2(awaittest.Within(t), &awss3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, object := range objects.Contents {
		out, err := client.GetObject(awaittest.Within(t), &awss3.GetObjectInput{Bucket: &bucket, Key: object.Key})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(out.Body)
		if err := errors.Join(err, out.Body.Close()); err != nil {
			t.Fatal(err)
		}
		count += strings.Count(string(data), `"holder":`) + strings.Count(string(data), `"next":`)
	}
	return count
}

func open(t testing.TB, url string) election.Backend { return storetest.Opener(s3.Open).Open(t, url) }

// operator is a client that is none of the candidates, with the bucket and the
// prefix of the URL.
func operator(t testing.TB, text string) (client *awss3.Client, bucket, prefix string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadDefaultConfig(awaittest.Within(t), config.WithRegion(u.Query().Get("region")))
	if err != nil {
		t.Fatal(err)
	}
	return awss3.NewFromConfig(loaded, func(o *awss3.Options) {
		o.UsePathStyle = true
		o.BaseEndpoint = aws.String(u.Query().Get("endpoint"))
	}), u.Host, strings.TrimPrefix(u.Path, "/")
}
