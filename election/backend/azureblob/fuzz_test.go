package azureblob

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// FuzzNameOf: a blob belongs to one election at most.
func FuzzNameOf(f *testing.F) {
	b, err := New(&container.Client{}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"elections/a.lock", "elections/a%2Fb.lock", "elections/a.line", "elections/%.lock", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, blob string) {
		if name, ok := b.nameOf(blob); ok && b.blobOf(name, lockSuffix) != blob {
			t.Errorf("%q is of %q, whose lock is %q", blob, name, b.blobOf(name, lockSuffix))
		}
		if name, ok := b.nameOf(b.blobOf(blob, lockSuffix)); !ok || name != blob {
			t.Errorf("%q comes back as %q, %v", blob, name, ok)
		}
	})
}
