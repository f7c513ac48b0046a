package election

import (
	"context"
	"log/slog"
)

// LogEvents returns a function for Options.OnEvent that logs every event and
// then calls next, if that is not nil. A leadership that begins or ends in
// order is logged at level Info, one that was lost and what failed at Warn, a
// function that does not end at Error, the rest at Debug. The logger's handler
// must return soon: the leadership waits for it.
func LogEvents(logger *slog.Logger, next func(Event)) func(Event) {
	return func(e Event) {
		logger.LogAttrs(context.Background(), e.level(), "election "+e.Kind.String(), e.attrs()...)
		if next != nil {
			next(e)
		}
	}
}

func (e Event) level() slog.Level {
	switch e.Kind {
	case EventElected:
		return slog.LevelInfo
	case EventLost:
		if e.Reason == ReasonExpired || e.Reason == ReasonTaken || e.Reason == ReasonTokenStale {
			return slog.LevelWarn
		}
		return slog.LevelInfo
	case EventCampaignFailed, EventRenewFailed, EventReleaseFailed:
		return slog.LevelWarn
	case EventStuck:
		return slog.LevelError
	}
	return slog.LevelDebug
}

func (e Event) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("election", e.Election), slog.Uint64("attempt", e.Attempt)}
	if e.Token != 0 {
		attrs = append(attrs, slog.Uint64("token", uint64(e.Token)))
	}
	if e.Lease != 0 {
		attrs = append(attrs, slog.Duration("lease", e.Lease))
	}
	if e.Kind == EventEnding || e.Kind == EventLost {
		attrs = append(attrs, slog.String("reason", e.Reason.String()))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
