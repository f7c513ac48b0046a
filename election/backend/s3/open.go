package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storeurl"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "s3://my-bucket/elections?region=eu-central-1"

// Open returns the backend of a URL:
//
//	s3://BUCKET[/PREFIX][?region=R][&endpoint=URL][&path-style=true][&poll=2s]
//
// Credentials and, unless given, the Region come from where AWS's tools look for them: the
// environment, the shared files, the role of the machine. Other stores need an endpoint, most of
// them path-style=true, and a Region that they ignore, such as us-east-1 or auto. The returned
// function releases resources; call it when nothing of the backend runs any more.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	client, options, err := Connect(ctx, text)
	if err != nil {
		return nil, nil, err
	}
	backend, err := New(client, options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { return nil }, nil
}

// Connect returns the client and the options of a URL that Open takes, for programs that keep
// other things in such a store. It does not connect.
func Connect(ctx context.Context, text string) (*s3.Client, Options, error) {
	target, err := parseURL(text)
	if err != nil {
		return nil, Options{}, err
	}
	// The SDK's log would write to the program's standard error.
	load := append(target.load, config.WithLogger(logging.Nop{}))
	loaded, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, Options{}, fmt.Errorf("s3: configuration of AWS: %w", err)
	}
	if loaded.Region == "" {
		return nil, Options{}, fmt.Errorf("s3: %q: no Region; add ?region=... or set AWS_REGION", redact.URL(text))
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = target.pathStyle
		// Not all other stores know the checksums that AWS has added.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if target.endpoint != "" {
			o.BaseEndpoint = aws.String(target.endpoint)
		}
	})
	return client, target.options, nil
}

// target is the content of a URL.
type target struct {
	options   Options
	endpoint  string
	pathStyle bool
	load      []func(*config.LoadOptions) error
}

// form describes the URLs.
var form = storeurl.Form{Backend: "s3", Schemes: []string{"s3"}, Example: URLExample, Credentials: "the environment or AWS's files"}

func parseURL(text string) (t target, err error) {
	u, values, err := form.Parse(text)
	if err == nil && (u.Host == "" || strings.Contains(u.Host, ":")) {
		err = errors.New("it names no bucket (the address of a store goes into ?endpoint=)")
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	t.options = Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	err = storeurl.Parameters{
		"region": func(region string) error {
			t.load = append(t.load, config.WithRegion(region))
			return nil
		},
		"endpoint":   storeurl.Text(&t.endpoint),
		"path-style": storeurl.Bool(&t.pathStyle),
		"poll":       storeurl.Duration(&t.options.Poll),
	}.Read(values)
	if err == nil {
		t.options, err = t.options.validate()
	}
	if err != nil {
		return t, form.Refuse(text, err)
	}
	return t, nil
}
