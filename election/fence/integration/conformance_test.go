//go:build linux && conformance

package integration

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

func TestPostgresLosesNoUpdate(t *testing.T) {
	server := stores.Start(t, "postgres")
	db, err := sql.Open("pgx", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, level := range levels {
		b := &table{db: db, dialect: fence.Postgres, level: level, busy: func(err error) bool {
			var refused *pgconn.PgError
			return errors.As(err, &refused) && refused.Code == "40001" // serialization failure
		}}
		t.Run(fmt.Sprint("GuardRow", level), func(t *testing.T) { fencetest.Run(t, b.guarded) })
		t.Run(fmt.Sprint("Column", level), func(t *testing.T) { fencetest.Run(t, b.inColumn) })
	}
}

// The column needs a connection that counts the rows that were found, not those
// that were changed.
func TestMariaDBLosesNoUpdate(t *testing.T) {
	server := stores.Start(t, "mariadb")
	open := func(rest string) *sql.DB {
		db, err := sql.Open("mysql", server.Note["dsn"]+rest)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	if _, err := open("").ExecContext(awaittest.Within(t), "create database fence"); err != nil {
		t.Fatal(err)
	}
	busy := func(err error) bool {
		var refused *mysql.MySQLError
		return errors.As(err, &refused) && refused.Number == 1213 // deadlock
	}
	changed, found := open("fence"), open("fence?clientFoundRows=true")
	for _, level := range levels {
		guarded := &table{db: changed, dialect: fence.MySQL, level: level, busy: busy}
		t.Run(fmt.Sprint("GuardRow", level), func(t *testing.T) { fencetest.Run(t, guarded.guarded) })
		column := &table{db: found, dialect: fence.MySQL, level: level, busy: busy}
		t.Run(fmt.Sprint("Column", level), func(t *testing.T) { fencetest.Run(t, column.inColumn) })
	}
}

// TestMariaDBKeepsResourcesApart by their bytes, up to the longest name.
func TestMariaDBKeepsResourcesApart(t *testing.T) {
	server := stores.Start(t, "mariadb")
	ctx := awaittest.Within(t)
	db, err := sql.Open("mysql", server.Note["dsn"]+"conclave")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f, err := fence.NewSQL(fence.MySQL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, f.Schema()); err != nil {
		t.Fatal(err)
	}
	check := func(resource string, token election.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(ctx, tx, resource, token); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
	long := strings.Repeat("ü", 511)
	names := []string{"a", "a ", "A", "ä", "a\u0308", long + "yx", long + "yz"}
	for i, name := range names {
		if err := check(name, election.Token(100-i)); err != nil {
			t.Errorf("%.20q with the first token of its own: %v", name, err)
		}
		if err := check(name, 1); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%.20q with a token of before: %v", name, err)
		}
	}
	if err := check(long+"xyz", 1000); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "1024") {
		t.Errorf("a name that is too long: %v", err)
	}
}

func TestVersityGatewayLosesNoUpdate(t *testing.T) { inS3(t, "s3") }

func TestMinIOLosesNoUpdate(t *testing.T) { inS3(t, "minio") }

func inS3(t *testing.T, name string) {
	server := stores.Start(t, name)
	u := parse(t, server.URL)
	client := s3.New(s3.Options{Region: "us-east-1", UsePathStyle: true, RetryMaxAttempts: 1,
		BaseEndpoint: aws.String(u.Query().Get("endpoint")), RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: credentials.NewStaticCredentialsProvider(server.Note["access"], server.Note["secret"], "")})
	var made atomic.Int32
	fencetest.Run(t, func(*testing.T) fencetest.Resource {
		return numbered(s3Objects{client, u.Host}, fmt.Sprint("number-", made.Add(1)))
	})
}

func TestAzuriteLosesNoUpdate(t *testing.T) {
	server := stores.Start(t, "azureblob")
	endpoint := parse(t, server.URL).Query().Get("endpoint")
	credential, err := azblob.NewSharedKeyCredential(server.Note["account"], server.Note["key"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential(endpoint, credential,
		&azblob.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateContainer(awaittest.Within(t), "fence", nil); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	fencetest.Run(t, func(*testing.T) fencetest.Resource {
		return numbered(azureObjects{client, "fence"}, fmt.Sprint("number-", made.Add(1)))
	})
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
