package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/conclave-project/conclave/internal/eventqueue"
)

// logQueue stands between the server and its log, which may be a full pipe or a slow disk:
// nobody waits for it, the loop least of all. Of what has no space the oldest is missing, and
// the next line says how much.
type logQueue = eventqueue.Queue[logLine]

type logLine struct {
	to     slog.Handler
	record slog.Record
	missed int
}

// logAside returns the queue of a log, and a log that puts its lines there.
func logAside(log *slog.Logger) (*logQueue, *slog.Logger) {
	queue := eventqueue.New(logLine.tell, func(l *logLine) *int { return &l.missed })
	return queue, slog.New(&asideHandler{queue, log.Handler()})
}

func (l logLine) tell() {
	if l.missed > 0 {
		l.record.AddAttrs(slog.Int("linesMissing", l.missed))
	}
	_ = l.to.Handle(context.Background(), l.record) // there is nobody to be told
}

// logWaitMax is how long the end of the server waits for its log.
const logWaitMax = time.Second

// asideHandler puts lines into the queue.
type asideHandler struct {
	queue *logQueue
	to    slog.Handler
}

func (h *asideHandler) Enabled(c context.Context, level slog.Level) bool {
	return h.to.Enabled(c, level)
}

func (h *asideHandler) Handle(_ context.Context, r slog.Record) error {
	h.queue.Put(logLine{to: h.to, record: r.Clone()})
	return nil
}

func (h *asideHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &asideHandler{h.queue, h.to.WithAttrs(attrs)}
}

func (h *asideHandler) WithGroup(name string) slog.Handler {
	return &asideHandler{h.queue, h.to.WithGroup(name)}
}
