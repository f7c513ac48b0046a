//go:build linux && conformance

package azureblob_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/azureblob"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) { storetest.Opener(azureblob.Open).Main(m) }

// start runs an emulator that this process and its children use.
func start(t testing.TB) *stores.Server {
	t.Helper()
	server := stores.Start(t, "azureblob")
	if err := os.Setenv("AZURE_STORAGE_KEY", server.Note["key"]); err != nil {
		t.Fatal(err)
	}
	return server
}

// containers returns a function that makes URLs of containers that do not exist yet.
func containers(server *stores.Server) func(testing.TB) string {
	var count atomic.Int64
	return func(testing.TB) string {
		return strings.Replace(server.URL, "/elections?", fmt.Sprintf("/elections%d?", count.Add(1)), 1)
	}
}

// TestAzureBlobBackendPassesTheSuite takes long, because no lease is shorter than 15 s.
// The emulator is not restarted, because it would forget the last seconds before it was
// killed, which the service does not.
func TestAzureBlobBackendPassesTheSuite(t *testing.T) {
	server := start(t)
	fresh := containers(server)
	electiontest.Run(t, electiontest.Suite{
		Store: "Azurite " + strings.TrimPrefix(server.Version, "azurite-"),
		Lease: azureblob.LeaseMin, Elections: 300,
		Open:  open,
		URL:   func(t testing.TB) string { return fresh(t) + "&poll=200ms" },
		Proxy: server.Proxy,
		Delete: func(t testing.TB, url, name string) {
			lock := operator(t, url).NewBlockBlobClient("elections/" + name + ".lock")
			leased, err := lease.NewBlobClient(lock, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = leased.BreakLease(awaittest.Within(t), &lease.BlobBreakOptions{BreakPeriod: new(int32)})
			if err != nil && !bloberror.HasCode(err, bloberror.LeaseNotPresentWithLeaseOperation) {
				t.Fatal(err)
			}
			if _, err := lock.Delete(awaittest.Within(t), nil); err != nil {
				t.Fatal(err)
			}
		},
		Left: left,
	})
}

// left counts the leases and candidates in all blobs of the URL.
func left(t testing.TB, url string) int {
	client, count := operator(t, url), 0
	pages := client.NewListBlobsFlatPager(nil)
	for pages.More() {
		page, err := pages.NextPage(awaittest.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Segment.BlobItems {
			if item.Properties.LeaseStatus != nil && *item.Properties.LeaseStatus == lease.StatusTypeLocked {
				count++
			}
			var text [64 << 10]byte
			n, err := client.NewBlockBlobClient(*item.Name).DownloadBuffer(awaittest.Within(t), text[:], nil)
			if err != nil {
				t.Fatal(err)
			}
			count += strings.Count(string(text[:n]), `"holder":`) + strings.Count(string(text[:n]), `"next":`)
		}
	}
	return count
}

func open(t testing.TB, url string) election.Backend {
	return storetest.Opener(azureblob.Open).Open(t, url)
}

// operator is a client that is none of the candidates.
func operator(t testing.TB, text string) *container.Client {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	credential, err := container.NewSharedKeyCredential(u.Host, os.Getenv("AZURE_STORAGE_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential(u.Query().Get("endpoint")+u.Path, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAzureBlobBackendOnAzurite(t *testing.T) {
	fresh := containers(start(t))
	for _, test := range []struct {
		name string
		test func(t *testing.T, url string)
	}{
		{"LockIsFencedByTheService", testLockIsFencedByTheService},
		{"GrantWhoseAnswerWasLostIsFoundByAskingAgain", testGrantWhoseAnswerWasLostIsFoundByAskingAgain},
		{"GrantThatNobodyGotIsWithdrawn", testGrantThatNobodyGotIsWithdrawn},
		{"BreakStopsTheHolderAndWaitsForTheLease", testBreakStopsTheHolderAndWaitsForTheLease},
		{"ThirdDoesNotGetBetween", testThirdDoesNotGetBetween},
		{"BlobOfSomethingElseIsNotOverwritten", testBlobOfSomethingElseIsNotOverwritten},
		{"MissingContainerAndWrongKeyAreFinal", testMissingContainerAndWrongKeyAreFinal},
		{"TaskIsCancelledWhenItsLeaseIsBroken", testTaskIsCancelledWhenItsLeaseIsBroken},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(t, fresh(t)) })
	}
}

func claim(id string) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032x", id), Lease: azureblob.LeaseMin}
}

func acquire(t testing.TB, b election.Backend, c election.Claim) election.Grant {
	t.Helper()
	grant, err := b.Acquire(awaittest.Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// idOf is the lease id of a claim, as the service writes it.
func idOf(c election.Claim) *string {
	n := c.Nonce
	id := strings.Join([]string{n[:8], n[8:12], n[12:16], n[16:20], n[20:]}, "-")
	return &id
}

// testLockIsFencedByTheService: the blob of the lock refuses writers that do not lead,
// even without a token.
func testLockIsFencedByTheService(t *testing.T, url string) {
	backend := open(t, url)
	old := acquire(t, backend, claim("a"))
	if err := backend.Release(awaittest.Within(t), old); err != nil {
		t.Fatal(err)
	}
	now := acquire(t, backend, claim("b"))
	lock := operator(t, url).NewBlockBlobClient("elections/e.lock")
	write := func(id *string) error {
		_, err := lock.SetMetadata(awaittest.Within(t), map[string]*string{"by": id}, &blob.SetMetadataOptions{
			AccessConditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: id}}})
		return err
	}
	if err := write(idOf(old.Claim)); !bloberror.HasCode(err, bloberror.LeaseIDMismatchWithBlobOperation) {
		t.Errorf("a stale leader: %v", err)
	}
	if err := write(nil); !bloberror.HasCode(err, bloberror.LeaseIDMissing) {
		t.Errorf("a stranger: %v", err)
	}
	if err := write(idOf(now.Claim)); err != nil {
		t.Errorf("the leader: %v", err)
	}
	if _, err := backend.Renew(awaittest.Within(t), election.Grant{Claim: old.Claim, Token: old.Token}); !errors.Is(err, election.ErrLost) {
		t.Errorf("renewing what was released: %v", err)
	}
}

// testGrantWhoseAnswerWasLostIsFoundByAskingAgain (azureblob-A2): another backend asks,
// which knows nothing of the first attempt.
func testGrantWhoseAnswerWasLostIsFoundByAskingAgain(t *testing.T, url string) {
	first := acquire(t, open(t, url), claim("a"))
	again := acquire(t, open(t, url), claim("a"))
	if again.Token != first.Token {
		t.Errorf("token %d after %d", again.Token, first.Token)
	}
}

// testGrantThatNobodyGotIsWithdrawn: its answer was lost, and the claim is abandoned.
func testGrantThatNobodyGotIsWithdrawn(t *testing.T, url string) {
	backend := open(t, url)
	held := acquire(t, backend, claim("a"))
	if err := backend.Release(awaittest.Within(t), election.Grant{Claim: held.Claim}); err != nil {
		t.Fatal(err)
	}
	history, err := backend.(election.Operator).History(awaittest.Within(t), "e")
	if err != nil || len(history) != 1 || history[0].Reason != "withdrawn" {
		t.Errorf("history %+v, %v", history, err)
	}
	if next := acquire(t, backend, claim("b")); next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// testBreakStopsTheHolderAndWaitsForTheLease: nobody leads before the holder whose
// lease was broken has stopped.
func testBreakStopsTheHolderAndWaitsForTheLease(t *testing.T, url string) {
	backend := open(t, url+"&poll=200ms").(*azureblob.Backend)
	if _, err := backend.Break(awaittest.Within(t), "e"); !errors.Is(err, election.ErrNoLeader) {
		t.Errorf("nothing to break: %v", err)
	}
	held := acquire(t, backend, claim("a"))
	left, err := backend.Break(awaittest.Within(t), "e")
	if err != nil || left < azureblob.LeaseMin-3*time.Second || left > azureblob.LeaseMin {
		t.Fatalf("%v is left, %v", left, err)
	}
	if _, err := backend.Renew(awaittest.Within(t), held); !errors.Is(err, election.ErrLost) {
		t.Errorf("renewing a broken lease: %v", err)
	}
	next := acquire(t, backend, claim("b"))
	if next.Sent < held.Sent.Add(held.Lease-2*time.Second) {
		t.Errorf("the next one was elected %v after the holder's last request", next.Sent.Sub(held.Sent))
	}
	if next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// testThirdDoesNotGetBetween (azureblob-A5): while the election passes to the chosen
// candidate, a stranger that does not queue tries as fast as it can.
func testThirdDoesNotGetBetween(t *testing.T, url string) {
	backend := open(t, url+"&poll=300ms")
	held := acquire(t, backend, claim("a"))
	granted := make(chan election.Grant, 1)
	go func() { granted <- acquire(t, backend, claim("chosen")) }()
	awaitWaiting(t, backend, "chosen")
	lock := operator(t, url).NewBlockBlobClient("elections/e.lock")
	stranger, err := lease.NewBlobClient(lock, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(awaittest.Within(t))
	ended := make(chan int, 1)
	go func() {
		tries := 0
		for ; ctx.Err() == nil; tries++ {
			if _, err := stranger.AcquireLease(ctx, 15, nil); err == nil {
				t.Error("the stranger has it")
			}
		}
		ended <- tries
	}()
	if err := backend.(election.Nominator).Nominate(awaittest.Within(t), held, "chosen"); err != nil {
		t.Fatal(err)
	}
	if err := backend.Release(awaittest.Within(t), held); err != nil {
		t.Fatal(err)
	}
	next := <-granted
	stop()
	if tries := <-ended; next.Token <= held.Token || tries < 10 {
		t.Errorf("token %d after %d, %d tries of the stranger", next.Token, held.Token, tries)
	}
}

func awaitWaiting(t testing.TB, b election.Backend, id string) {
	t.Helper()
	for view := range b.Observe(awaittest.Within(t), "e") {
		if len(view.Waiters) == 1 && view.Waiters[0].ID == id {
			return
		}
	}
	t.Fatalf("%q does not wait", id)
}

func testBlobOfSomethingElseIsNotOverwritten(t *testing.T, url string) {
	backend := open(t, url)
	other := operator(t, url).NewBlockBlobClient("elections/e.lock")
	if _, err := other.UploadBuffer(awaittest.Within(t), []byte("a letter"), &blockblob.UploadBufferOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := backend.Acquire(awaittest.Within(t), claim("a")); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("error %v", err)
	}
	if err := backend.Release(awaittest.Within(t), election.Grant{Claim: claim("a")}); err != nil {
		t.Error(err)
	}
	var text [100]byte
	if n, err := other.DownloadBuffer(awaittest.Within(t), text[:], nil); err != nil || string(text[:n]) != "a letter" {
		t.Errorf("it reads %q, %v", text[:n], err)
	}
}

func testMissingContainerAndWrongKeyAreFinal(t *testing.T, url string) {
	backend := open(t, strings.Replace(url, "create=true", "create=false", 1))
	if _, err := backend.Acquire(awaittest.Within(t), claim("a")); !errors.Is(err, election.ErrPermanent) ||
		!strings.Contains(err.Error(), "create=true") {
		t.Errorf("no container: %v", err)
	}
	t.Setenv("AZURE_STORAGE_KEY", base64.StdEncoding.EncodeToString([]byte("another")))
	_, _, err := azureblob.Open(awaittest.Within(t), url)
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("wrong key: %v", err)
	}
}

// testTaskIsCancelledWhenItsLeaseIsBroken: the mutex of the cloud pattern, with an
// operator who breaks its lease.
func testTaskIsCancelledWhenItsLeaseIsBroken(t *testing.T, url string) {
	backend := open(t, url).(*azureblob.Backend)
	elector, err := election.New(backend, "e", election.Options{Once: true, ID: "worker", Lease: azureblob.LeaseMin})
	if err != nil {
		t.Fatal(err)
	}
	err = elector.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		if _, err := backend.Break(ctx, "e"); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return nil
	})
	var lost *election.LostError
	if !errors.As(err, &lost) || lost.Reason != election.ReasonTaken {
		t.Errorf("Run returned %v", err)
	}
}
