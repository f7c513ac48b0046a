package s3

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/redact"
)

// URLExample is a URL that Open takes.
const URLExample = "s3://my-bucket/elections?region=eu-central-1"

// Open returns the backend of a URL:
//
//	s3://BUCKET[/PREFIX][?region=R][&endpoint=URL][&path-style=true][&poll=2s]
//
// Credentials and, unless given, the Region come from where AWS's tools look
// for them: the environment, the shared files, the role of the machine. Stores
// of others take an endpoint, most of them path-style=true, and a Region that
// they do not care for, such as us-east-1 or auto. The function returned gives
// resources back; it may be called once nothing of the backend runs.
func Open(ctx context.Context, text string) (election.Backend, func() error, error) {
	target, err := parseURL(text)
	if err != nil {
		return nil, nil, err
	}
	// The SDK's own log would go into the program's standard error.
	load := append(target.load, config.WithLogger(logging.Nop{}))
	loaded, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, nil, fmt.Errorf("s3: configuration of AWS: %w", err)
	}
	if loaded.Region == "" {
		return nil, nil, fmt.Errorf("s3: %q: no Region; add ?region=... or set AWS_REGION", redact.URL(text))
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = target.pathStyle
		// Others' stores do not all know the checksums that AWS has added.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if target.endpoint != "" {
			o.BaseEndpoint = aws.String(target.endpoint)
		}
	})
	backend, err := New(client, target.options)
	if err != nil {
		return nil, nil, err
	}
	return backend, func() error { return nil }, nil
}

// target is what a URL says.
type target struct {
	options   Options
	endpoint  string
	pathStyle bool
	load      []func(*config.LoadOptions) error
}

func parseURL(text string) (target, error) {
	var t target
	bad := func(format string, args ...any) (target, error) {
		return t, election.Permanent(fmt.Errorf("s3: %q: %w; write for example %s", redact.URL(text), fmt.Errorf(format, args...), URLExample))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("not a URL")
	case u.Scheme != "s3":
		return bad("the scheme is not s3")
	case u.Host == "" || strings.Contains(u.Host, ":"):
		return bad("it names no bucket (the address of a store goes into ?endpoint=)")
	case u.User != nil:
		return bad("credentials are not taken from a URL, but from the environment or AWS's files")
	}
	t.options = Options{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "region":
			t.load = append(t.load, config.WithRegion(value))
		case "endpoint":
			t.endpoint = value
		case "path-style":
			t.pathStyle, err = strconv.ParseBool(value)
		case "poll":
			t.options.Poll, err = time.ParseDuration(value)
		default:
			return bad("unknown parameter %q", name)
		}
		if err != nil {
			return bad("parameter %s: %w", name, err)
		}
	}
	if t.options, err = t.options.validate(); err != nil {
		return bad("%w", err)
	}
	return t, nil
}
