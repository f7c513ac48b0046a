package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/sealed"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// OpenPlace opens the place for backups at a URL.
type OpenPlace = func(ctx context.Context, url string) (backup.Place, error)

// linkedPlaces opens the places whose SDKs this program links, by the schemes of their
// URLs. Main sets it before anything else.
var linkedPlaces map[string]OpenPlace

// placeExamples has a URL for each scheme of places.
var placeExamples = map[string]string{
	"azureblob": "azureblob://myaccount/mycontainer/backup",
	"s3":        "s3://my-bucket/backup?region=eu-central-1",
}

// placesAbout says where a backup may be, for the help of commands.
const placesAbout = `BACKUP is a directory, or the URL of an object store: s3://BUCKET/PREFIX or
azureblob://ACCOUNT/CONTAINER/PREFIX, with the same parameters and credentials
as for elections (docs/backends.md). Everybody who can read a backup can see
everything in the tree: --recipient encrypts it with age.`

// placeURL returns the scheme of a URL, "" for a directory.
func placeURL(place string) string {
	scheme, _, is := strings.Cut(place, "://")
	if !is {
		return ""
	}
	return scheme
}

// readyPlace makes sure that this program can open a place: if not, the process becomes
// conclave-stores. It is called before anything is held.
func readyPlace(place string) error {
	scheme := placeURL(place)
	switch _, known := placeExamples[scheme]; {
	case scheme == "" || linkedPlaces[scheme] != nil:
		return nil
	case !known:
		all := slices.Sorted(maps.Values(placeExamples))
		return cli.Usage("name a directory, or write for example "+strings.Join(all, " or "), "no backup can be kept at %s", redact.URL(place))
	}
	return becomeStores(scheme)
}

// backupKeys are the flags of the keys of a backup.
type backupKeys struct {
	identities                 []string // names of files
	recipients, recipientFiles []string
}

func (k *backupKeys) addReading(c *cobra.Command) {
	c.Flags().StringArrayVarP(&k.identities, "identity", "i", nil, "file of age identities that decrypts the backup; may be repeated")
}

func (k *backupKeys) addWriting(c *cobra.Command) {
	k.addReading(c)
	c.Flags().StringArrayVarP(&k.recipients, "recipient", "r", nil, "encrypt what is written for this age recipient (age1...); may be repeated")
	c.Flags().StringArrayVarP(&k.recipientFiles, "recipients-file", "R", nil, "encrypt for the recipients in this file, one per line")
}

// over wraps a place with the keys.
func (k *backupKeys) over(place backup.Place) (*sealed.Place, error) {
	var recipients []age.Recipient
	var identities []age.Identity
	for _, text := range k.recipients {
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, cli.Usage("age-keygen prints the recipient of an identity: age1...", "--recipient %q: %v", text, err)
		}
		recipients = append(recipients, some...)
	}
	for _, file := range k.recipientFiles {
		err := withFile(file, func(r io.Reader) error {
			some, err := age.ParseRecipients(r)
			recipients = append(recipients, some...)
			return err
		})
		if err != nil {
			return nil, cli.Usage("each line must be a recipient (age1...) or begin with #", "--recipients-file %s: %v", file, err)
		}
	}
	for _, file := range k.identities {
		err := withFile(file, func(r io.Reader) error {
			some, err := age.ParseIdentities(r)
			identities = append(identities, some...)
			return err
		})
		if err != nil {
			return nil, cli.Usage("age-keygen -o FILE makes an identity", "--identity %s: %v", file, err)
		}
	}
	return sealed.New(place, recipients, identities), nil
}

func withFile(name string, read func(io.Reader) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return read(file)
}

// open opens a place for reading.
func (k *backupKeys) open(ctx context.Context, place string) (*sealed.Place, error) {
	if err := readyPlace(place); err != nil {
		return nil, err
	}
	if scheme := placeURL(place); scheme != "" {
		return k.openURL(ctx, scheme, place)
	}
	if info, err := os.Stat(place); err != nil || !info.IsDir() {
		return nil, cli.NotFound(cmp.Or(err, fmt.Errorf("%s is not a directory", place)), "name the directory that `conclave backup take` wrote to")
	}
	return k.over(backup.OpenDir(osfs.New(), place))
}

// lock opens a place for writing. In a directory only one process at a time may write.
func (k *backupKeys) lock(ctx context.Context, place string) (sealed *sealed.Place, unlock func(), err error) {
	if scheme := placeURL(place); scheme != "" {
		sealed, err = k.openURL(ctx, scheme, place)
		return sealed, func() {}, err
	}
	dir, err := backup.LockDir(osfs.New(), place)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, nil, cli.Failed(err, "another backup is being taken: wait for it")
	case err != nil:
		return nil, nil, failedOn(err, "name a writable directory")
	}
	unlock = func() { _ = dir.Close() }
	if sealed, err = k.over(dir); err != nil {
		unlock()
	}
	return sealed, unlock, err
}

func (k *backupKeys) openURL(ctx context.Context, scheme, place string) (*sealed.Place, error) {
	under, err := linkedPlaces[scheme](ctx, place)
	if err != nil {
		return nil, cli.Failed(err, "write for example "+placeExamples[scheme])
	}
	return k.over(under)
}

// failedOn returns an error of a directory or a place, with the given hint, or with another
// one if the system has refused access.
func failedOn(err error, hint string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "run it as the user who owns the files, or name a place that this user may use"
	case errors.Is(err, vfs.ErrNoSpace):
		hint = "make space on the disk, or name a directory on another one, and try again"
	}
	return cli.Failed(err, hint)
}

// explainKeys adds what to do about missing keys; it returns nil for other errors.
func explainKeys(err error) error {
	switch {
	case errors.Is(err, sealed.ErrNoIdentity):
		return cli.Failed(err, "name the file of the identity that decrypts it with --identity")
	case errors.Is(err, sealed.ErrWrongIdentity):
		return cli.Failed(err, "it was encrypted for another recipient: name the file of that identity with --identity")
	case errors.Is(err, sealed.ErrNoRecipient):
		return cli.Failed(err, "give the --recipient again, or take the backup to another place")
	}
	return nil
}
