package integration

import (
	"context"
	"io"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// azureObjects are the blobs of a container. Its client makes one attempt:
// azcore.ClientOptions.Retry.MaxRetries = -1.
type azureObjects struct {
	client    *azblob.Client
	container string
}

func (a azureObjects) Get(ctx context.Context, key string) ([]byte, string, error) {
	out, err := a.client.DownloadStream(ctx, a.container, key, nil)
	if err != nil {
		return nil, "", azureError(err)
	}
	defer func() { _ = out.Body.Close() }()
	data, err := io.ReadAll(out.Body)
	return data, string(*out.ETag), err
}

func (a azureObjects) Put(ctx context.Context, key string, data []byte, etag string) error {
	condition := &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(etag))}
	if etag == "" {
		condition = &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}
	}
	_, err := a.client.UploadBuffer(ctx, a.container, key, data, &blockblob.UploadBufferOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition}})
	return azureError(err)
}

func azureError(err error) error {
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return fence.ErrNoObject
	case bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return fence.ErrChanged
	}
	return err
}

// A blob in Azure, given Objects of a dozen lines (azureObjects).
func ExampleUpdateObject_azure() {
	update := func(ctx context.Context, client *azblob.Client, lead election.Leadership) error {
		objects := azureObjects{client, "my-container"}
		return fence.UpdateObject(ctx, objects, "report", lead.Token(), func(old []byte) ([]byte, error) {
			return append(old, "one more line\n"...), nil
		})
	}
	_ = update
}
