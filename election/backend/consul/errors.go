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
	// errPaused ends a claim whose process was paused or partitioned for too long.
	errPaused = fmt.Errorf("%w: its session was not renewed in time", election.ErrLost)
)

// denied is the beginning of Consul's message that a token may not do something. The client
// returns it as the status code of an answer, or only as text.
const denied = "Permission denied"

// Mark adds the marks of package election to errors of Consul.
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

// crossed reports whether a request has failed only because another one was cancelled at
// the same moment: net/http may reuse a connection just before it closes it because of the
// cancelled request. Every request that is repeated for this reason may safely be carried
// out twice.
func crossed(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() == nil
}
