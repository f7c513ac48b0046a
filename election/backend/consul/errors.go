package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

var (
	errNoSession = fmt.Errorf("%w: the session has ended", election.ErrLost)
	errNotHeld   = fmt.Errorf("%w: the key is not locked by this candidate's session any more", election.ErrLost)
	// errPaused ends a claim whose process was paused, or partitioned, for too
	// long.
	errPaused = fmt.Errorf("%w: its session was not renewed in time", election.ErrLost)
)

// denied is how Consul begins to say that a token may not do something. The
// client passes it on as the code of an answer or as text only.
const denied = "Permission denied"

// Mark gives errors of Consul the marks of package election.
func (s *store) Mark(err error) error {
	var status api.StatusError
	if err == nil {
		return nil
	}
	if errors.As(err, &status) && status.Code == http.StatusForbidden || strings.Contains(err.Error(), denied) {
		return election.Permanent(fmt.Errorf("%w; give a token with session:write and key:write for the "+
			"election's key and those below conclave/elections/", err))
	}
	return err
}

// crossed reports whether a request has failed only because another one was
// given up at the same moment: net/http may put a connection to new use just
// before it closes it for the old request's sake. All requests that are repeated
// for it may be carried out twice.
func crossed(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() == nil
}
