package metrics_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/metrics"
)

// The events of one client are logged and counted.
func Example() {
	counted := metrics.New()
	prometheus.MustRegister(counted)
	defer prometheus.Unregister(counted)
	c, err := client.Dial(context.Background(), "127.0.0.1:2181", client.Options{
		OnEvent: client.LogEvents(slog.Default(), counted.OnEvent(nil)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
}
