package azureblob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/conclave-project/conclave/election"
)

// bytesMax is the size of the largest blob that is read. Ours have a few KB.
const bytesMax = 1 << 20

// object is one blob. Each method makes one request.
type object struct {
	name   string
	client *blockblob.Client
}

func (b *Backend) lock(name string) object { return b.object(b.blobOf(name, lockSuffix)) }
func (b *Backend) line(name string) object { return b.object(b.blobOf(name, lineSuffix)) }

func (b *Backend) object(blob string) object {
	return object{blob, b.container.NewBlockBlobClient(blob)}
}

// requestMax is how long a request may take: a quarter of the shortest lease.
const requestMax = LeaseMin / 4

// once turns off the SDK's retries and bounds the time of the request (azureblob-A4).
func once(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1}), cancel
}

// The answers of the service that have a known meaning. After any other error the outcome
// of the request is unknown.
var (
	// codesTaken: another claim has the lease.
	codesTaken = []bloberror.Code{bloberror.LeaseAlreadyPresent, bloberror.LeaseIsBreakingAndCannotBeAcquired}
	// codesNoLease: the lease in question does not exist, or no longer.
	codesNoLease = []bloberror.Code{bloberror.LeaseIDMismatchWithLeaseOperation,
		bloberror.LeaseNotPresentWithLeaseOperation, bloberror.LeaseIsBrokenAndCannotBeRenewed,
		bloberror.LeaseIsBreakingAndCannotBeChanged, bloberror.LeaseAlreadyBroken, bloberror.LeaseLost,
		bloberror.LeaseIDMismatchWithBlobOperation, bloberror.LeaseNotPresentWithBlobOperation,
		bloberror.BlobNotFound}
	// codesChanged: the blob has changed since it was read.
	codesChanged = []bloberror.Code{bloberror.ConditionNotMet, bloberror.BlobAlreadyExists,
		bloberror.TargetConditionNotMet}
	// codesFinal: no retry helps.
	codesFinal = []bloberror.Code{bloberror.ContainerNotFound, bloberror.AuthenticationFailed,
		bloberror.AuthorizationFailure, bloberror.AuthorizationPermissionMismatch,
		bloberror.InsufficientAccountPermissions, bloberror.AccountIsDisabled, bloberror.InvalidBlobType,
		bloberror.BlobImmutableDueToPolicy}
)

func isCode(err error, codes ...bloberror.Code) bool { return bloberror.HasCode(err, codes...) }

// explain says what was being done to which blob, and marks final errors.
func (o object) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	short := err
	var answer *azcore.ResponseError
	if errors.As(err, &answer) { // its own text has the whole exchange
		short = &answerError{answer}
	}
	err = fmt.Errorf("%s %s: %w", what, o.name, short)
	if isCode(err, bloberror.ContainerNotFound) {
		err = fmt.Errorf("%w (make the container first, or open the URL with create=true)", err)
	}
	if isCode(err, codesFinal...) {
		return election.Permanent(err)
	}
	return err
}

// answerError shows an answer of the service on one line.
type answerError struct{ answer *azcore.ResponseError }

func (e *answerError) Error() string {
	return fmt.Sprintf("status %d, %s", e.answer.StatusCode, e.answer.ErrorCode)
}

func (e *answerError) Unwrap() error { return e.answer }

// seen is a blob as it was read. One that does not exist is empty and has no ETag.
type seen struct {
	data   []byte
	etag   azcore.ETag
	leased bool // a lease exists and has not run out
}

// read returns the content of a blob.
func (o object) read(ctx context.Context) (seen, error) {
	ctx, cancel := once(ctx)
	defer cancel()
	out, err := o.client.DownloadStream(ctx, nil)
	if isCode(err, bloberror.BlobNotFound) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, o.explain("read", err)
	}
	data, err := io.ReadAll(io.LimitReader(out.Body, bytesMax+1))
	if err := errors.Join(err, out.Body.Close()); err != nil {
		return seen{}, o.explain("read", err)
	}
	if len(data) > bytesMax {
		return seen{}, o.explain("read", errNotOurs)
	}
	s := seen{data: data}
	if out.ETag != nil {
		s.etag = *out.ETag
	}
	s.leased = out.LeaseStatus != nil && *out.LeaseStatus == lease.StatusTypeLocked
	return s, nil
}

// write writes the blob if it still has the ETag (empty for no blob), and, if an id is
// given, only under that lease.
func (o object) write(ctx context.Context, data []byte, etag azcore.ETag, id string, metadata map[string]*string) error {
	ctx, cancel := once(ctx)
	defer cancel()
	conditions := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{}}
	if etag == "" {
		conditions.ModifiedAccessConditions.IfNoneMatch = to.Ptr(azcore.ETagAny)
	} else {
		conditions.ModifiedAccessConditions.IfMatch = &etag
	}
	if id != "" {
		conditions.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: &id}
	}
	_, err := o.client.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{
		AccessConditions: conditions, Metadata: metadata,
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("application/json")}})
	return o.explain("write", err)
}

// make creates an empty blob unless it exists.
func (o object) make(ctx context.Context) error {
	err := o.write(ctx, nil, "", "", nil)
	if isCode(err, bloberror.BlobAlreadyExists, bloberror.LeaseIDMissing, bloberror.ConditionNotMet) {
		return nil
	}
	return err
}

func (o object) lease(id string) (*lease.BlobClient, error) {
	return lease.NewBlobClient(o.client, &lease.BlobClientOptions{LeaseID: &id})
}

// acquire takes the lease, or renews it if the id already has it (azureblob-A2).
func (o object) acquire(ctx context.Context, id string, length time.Duration) error {
	ctx, cancel := once(ctx)
	defer cancel()
	client, err := o.lease(id)
	if err == nil {
		_, err = client.AcquireLease(ctx, int32(length/time.Second), nil)
	}
	return o.explain("acquire the lease of", err)
}

func (o object) renew(ctx context.Context, id string) error {
	ctx, cancel := once(ctx)
	defer cancel()
	client, err := o.lease(id)
	if err == nil {
		_, err = client.RenewLease(ctx, nil)
	}
	return o.explain("renew the lease of", err)
}

// release ends the lease, which is then free at once.
func (o object) release(ctx context.Context, id string) error {
	ctx, cancel := once(ctx)
	defer cancel()
	client, err := o.lease(id)
	if err == nil {
		_, err = client.ReleaseLease(ctx, nil)
	}
	return o.explain("release the lease of", err)
}

// handOver changes the id of the lease (azureblob-A5).
func (o object) handOver(ctx context.Context, id, successor string) error {
	ctx, cancel := once(ctx)
	defer cancel()
	client, err := o.lease(id)
	if err == nil {
		_, err = client.ChangeLease(ctx, successor, nil)
	}
	return o.explain("change the lease of", err)
}

// breakLease ends the lease when its remaining time has passed.
func (o object) breakLease(ctx context.Context) (time.Duration, error) {
	ctx, cancel := once(ctx)
	defer cancel()
	client, err := o.lease("")
	if err != nil {
		return 0, err
	}
	out, err := client.BreakLease(ctx, nil)
	if err != nil {
		return 0, o.explain("break the lease of", err)
	}
	if out.LeaseTime == nil {
		return 0, nil
	}
	return time.Duration(*out.LeaseTime) * time.Second, nil
}

// idleMax is how long a request may continue after its context has ended, so that its
// outcome is known: an abandoned request could take the lease after it was released.
const idleMax = time.Second

// remaining returns a context that ends a moment after the given one.
func remaining(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(idleMax, func() { cancel(context.Cause(ctx)) })
	})
	return work, func() {
		stop()
		cancel(nil)
	}
}
