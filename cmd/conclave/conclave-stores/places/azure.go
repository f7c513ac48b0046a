package places

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/election/backend/azureblob"
	"github.com/conclave-project/conclave/internal/backup"
)

// azurePlace is a backup.Place in a container.
type azurePlace struct {
	client *container.Client
	prefix string
}

// Azure opens the place of a URL azureblob://ACCOUNT/CONTAINER/PREFIX, with the same
// parameters as for elections there.
func Azure(ctx context.Context, text string) (backup.Place, error) {
	client, _, err := azureblob.Connect(ctx, text)
	if err != nil {
		return nil, err
	}
	prefix, err := prefixOf(text, 1)
	return &azurePlace{client, prefix}, err
}

func (p *azurePlace) failed(do, name string, err error) error {
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%s blob %s%s: %w", do, p.prefix, name, err)
}

// List implements backup.Place.
func (p *azurePlace) List(ctx context.Context) ([]string, error) {
	pages := p.client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &p.prefix})
	var names []string
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, p.failed("list", "", err)
		}
		for _, item := range page.Segment.BlobItems {
			names = append(names, strings.TrimPrefix(*item.Name, p.prefix))
		}
	}
	return names, nil
}

// Put implements backup.Place.
func (p *azurePlace) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return upload(write, func(r io.Reader) error {
		if _, err := p.client.NewBlockBlobClient(p.prefix+name).UploadStream(ctx, r, nil); err != nil {
			return p.failed("put", name, err)
		}
		return nil
	})
}

// Open implements backup.Place.
func (p *azurePlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	blob, err := p.client.NewBlobClient(p.prefix+name).DownloadStream(ctx, nil)
	if err != nil {
		return nil, p.failed("open", name, err)
	}
	return blob.NewRetryReader(ctx, nil), nil
}

// Remove implements backup.Place.
func (p *azurePlace) Remove(ctx context.Context, name string) error {
	if _, err := p.client.NewBlobClient(p.prefix+name).Delete(ctx, nil); err != nil {
		return p.failed("remove", name, err)
	}
	return nil
}
