package election

import (
	"context"
	"log/slog"
)

// LogEvents returns a function for Options.OnEvent that logs every event and then calls next, if
// that is not nil. Leaderships that begin or end in order are logged at level Info, lost
// leaderships and failures at Warn, a function that does not end at Error, and the rest at Debug.
// A handler that blocks holds up later events, not the leadership.
func LogEvents(logger *slog.Logger, next func(Event)) func(Event) {
	return func(e Event) {
		logger.LogAttrs(context.Background(), e.level(), "election "+e.Kind.String(), e.attrs()...)
		if next != nil {
			next(e)
		}
	}
}

func (e Event) level() slog.Level {
	switch {
	case e.Kind == EventStuck:
		return slog.LevelError
	case e.Err != nil, e.Kind == EventLost && against(e.Reason):
		return slog.LevelWarn
	case e.Kind == EventElected || e.Kind == EventLost:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// against reports whether a leadership ended although nobody had asked for its end.
func against(reason Reason) bool {
	switch reason {
	case ReasonExpired, ReasonTaken, ReasonTokenStale, ReasonUnhealthy:
		return true
	}
	return false
}

func (e Event) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("election", e.Election), slog.Uint64("attempt", e.Attempt)}
	if e.Token != 0 {
		attrs = append(attrs, slog.Uint64("token", uint64(e.Token)))
	}
	if e.Lease != 0 {
		attrs = append(attrs, slog.Duration("lease", e.Lease))
	}
	if e.Kind == EventRenewed {
		attrs = append(attrs, slog.Duration("remaining", e.Remaining))
	}
	if e.Kind == EventEnding || e.Kind == EventLost {
		attrs = append(attrs, slog.String("reason", e.Reason.String()))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
