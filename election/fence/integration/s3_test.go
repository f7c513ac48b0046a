package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// s3Objects are the objects of a bucket. Its client makes one attempt:
// s3.Options.RetryMaxAttempts = 1.
type s3Objects struct {
	client *s3.Client
	bucket string
}

func (s s3Objects) Get(ctx context.Context, key string) ([]byte, string, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return nil, "", s3Error(err)
	}
	defer func() { _ = out.Body.Close() }()
	data, err := io.ReadAll(out.Body)
	return data, aws.ToString(out.ETag), err
}

func (s s3Objects) Put(ctx context.Context, key string, data []byte, etag string) error {
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(data), IfMatch: &etag}
	if etag == "" {
		in.IfMatch, in.IfNoneMatch = nil, aws.String("*")
	}
	_, err := s.client.PutObject(ctx, in)
	return s3Error(err)
}

func s3Error(err error) error {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.HTTPStatusCode() {
	case http.StatusNotFound:
		return fence.ErrNoObject
	case http.StatusPreconditionFailed, http.StatusConflict: // 409: two writes at once
		return fence.ErrChanged
	}
	return err
}

// An object in S3, given Objects of a dozen lines (s3Objects).
func ExampleUpdateObject_s3() {
	update := func(ctx context.Context, client *s3.Client, lead election.Leadership) error {
		objects := s3Objects{client, "my-bucket"}
		return fence.UpdateObject(ctx, objects, "report", lead.Token(), func(old []byte) ([]byte, error) {
			return append(old, "one more line\n"...), nil
		})
	}
	_ = update
}
