package places

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	backend "github.com/conclave-project/conclave/election/backend/s3"
	"github.com/conclave-project/conclave/internal/backup"
)

// s3Place is a backup.Place in a bucket.
type s3Place struct {
	client         *s3.Client
	bucket, prefix string
}

// S3 opens the place of a URL s3://BUCKET/PREFIX, with the same parameters as for elections
// in S3.
func S3(ctx context.Context, text string) (backup.Place, error) {
	client, options, err := backend.Connect(ctx, text)
	if err != nil {
		return nil, err
	}
	prefix, err := prefixOf(text, 0)
	return &s3Place{client, options.Bucket, prefix}, err
}

func (p *s3Place) key(name string) *string { return aws.String(p.prefix + name) }

func (p *s3Place) failed(do, name string, err error) error {
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s s3://%s/%s%s: %w", do, p.bucket, p.prefix, name, err)
}

// List implements backup.Place.
func (p *s3Place) List(ctx context.Context) ([]string, error) {
	pages := s3.NewListObjectsV2Paginator(p.client, &s3.ListObjectsV2Input{Bucket: &p.bucket, Prefix: &p.prefix, Delimiter: aws.String("/")})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, p.failed("list", "", err)
		}
		for _, object := range page.Contents {
			names = append(names, strings.TrimPrefix(aws.ToString(object.Key), p.prefix))
		}
	}
	return names, nil
}

// Put implements backup.Place.
func (p *s3Place) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return upload(write, func(r io.Reader) error {
		_, err := transfermanager.New(p.client).UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &p.bucket, Key: p.key(name), Body: r})
		if err != nil {
			return p.failed("put", name, err)
		}
		return nil
	})
}

// Open implements backup.Place.
func (p *s3Place) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := p.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: p.key(name)})
	if err != nil {
		return nil, p.failed("open", name, err)
	}
	return object.Body, nil
}

// Remove implements backup.Place.
func (p *s3Place) Remove(ctx context.Context, name string) error {
	if _, err := p.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &p.bucket, Key: p.key(name)}); err != nil {
		return p.failed("remove", name, err)
	}
	return nil
}
