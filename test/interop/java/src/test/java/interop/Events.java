package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** A watcher that keeps its events, in order, without those of the connection. */
final class Events implements Watcher {
    private final BlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

    @Override
    public void process(WatchedEvent event) {
        if (event.getType() != Event.EventType.None) {
            queue.add(event);
        }
    }

    void expect(Event.EventType type, String path) throws InterruptedException {
        WatchedEvent event = queue.poll(Target.WAIT_MS, TimeUnit.MILLISECONDS);
        assertNotNull(event, "no event, expected " + type + " " + path);
        assertEquals(type + " " + path, event.getType() + " " + event.getPath());
    }

    /** Nothing more is here; call it only after a reply that any event would have preceded. */
    void expectNone() {
        WatchedEvent event = queue.poll();
        assertNull(event, () -> "unexpected event " + event);
    }

    int size() {
        return queue.size();
    }
}
