package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WatchTest {
    private ZooKeeper zk;
    private ZooKeeper other;
    private String base;
    private final Events events = new Events();

    @BeforeEach
    void open() throws Exception {
        zk = Target.connect();
        other = Target.connect();
        base = Target.fresh(zk);
    }

    @AfterEach
    void close() throws Exception {
        zk.close();
        other.close();
    }

    private String create(String name) throws Exception {
        return other.create(base + name, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    /** All events that the other client's changes have caused are here after this. */
    private void flushEvents() throws Exception {
        zk.sync(base);
        zk.exists(base, false);
    }

    @Test
    void dataAndExistWatchesFireOnce() throws Exception {
        zk.exists(base + "/a", events);
        create("/a");
        events.expect(EventType.NodeCreated, base + "/a");
        zk.getData(base + "/a", events, null);
        other.setData(base + "/a", null, -1);
        other.setData(base + "/a", null, -1);
        events.expect(EventType.NodeDataChanged, base + "/a");
        zk.exists(base + "/a", events);
        other.delete(base + "/a", -1);
        events.expect(EventType.NodeDeleted, base + "/a");
        flushEvents();
        events.expectNone();
    }

    @Test
    void childWatchesFireOnCreateDeleteAndEnd() throws Exception {
        String path = create("/p");
        zk.getChildren(path, events);
        create("/p/kid");
        events.expect(EventType.NodeChildrenChanged, path);
        zk.getChildren(path, events);
        other.setData(path + "/kid", null, -1);
        other.delete(path + "/kid", -1);
        events.expect(EventType.NodeChildrenChanged, path);
        zk.getChildren(path, events);
        other.delete(path, -1);
        events.expect(EventType.NodeDeleted, path);
        flushEvents();
        events.expectNone();
    }

    @Test
    void dataAndChildWatchGetOneNodeDeleted() throws Exception {
        String path = create("/p");
        zk.getChildren(path, events);
        zk.getData(path, events, null);
        other.delete(path, -1);
        events.expect(EventType.NodeDeleted, path);
        flushEvents();
        events.expectNone();
    }

    @Test
    void aPersistentWatchStays() throws Exception {
        String path = base + "/p";
        zk.addWatch(path, events, AddWatchMode.PERSISTENT);
        for (int round = 0; round < 2; round++) {
            create("/p");
            other.setData(path, null, -1);
            create("/p/kid");
            other.setData(path + "/kid", null, -1);
            other.delete(path + "/kid", -1);
            other.delete(path, -1);
            events.expect(EventType.NodeCreated, path);
            events.expect(EventType.NodeDataChanged, path);
            events.expect(EventType.NodeChildrenChanged, path);
            events.expect(EventType.NodeChildrenChanged, path);
            events.expect(EventType.NodeDeleted, path);
        }
        flushEvents();
        events.expectNone();
    }

    @Test
    void aRecursiveWatchSeesTheWholeSubtree() throws Exception {
        zk.addWatch(base, events, AddWatchMode.PERSISTENT_RECURSIVE);
        create("/a");
        create("/a/b");
        create("/a/b/c");
        other.setData(base + "/a/b/c", null, -1);
        other.delete(base + "/a/b/c", -1);
        other.setData(base, null, -1);
        events.expect(EventType.NodeCreated, base + "/a");
        events.expect(EventType.NodeCreated, base + "/a/b");
        events.expect(EventType.NodeCreated, base + "/a/b/c");
        events.expect(EventType.NodeDataChanged, base + "/a/b/c");
        events.expect(EventType.NodeDeleted, base + "/a/b/c");
        events.expect(EventType.NodeDataChanged, base);
        flushEvents();
        events.expectNone();
    }

    @Test
    void modesOnOnePathAreIndependent() throws Exception {
        Events once = new Events();
        Events always = new Events();
        String path = create("/m");
        zk.addWatch(path, always, AddWatchMode.PERSISTENT);
        zk.getData(path, once, null);
        other.setData(path, null, -1);
        other.setData(path, null, -1);
        once.expect(EventType.NodeDataChanged, path);
        always.expect(EventType.NodeDataChanged, path);
        always.expect(EventType.NodeDataChanged, path);
        flushEvents();
        once.expectNone();
        always.expectNone();
    }

    @Test
    void removedWatchesAreSilent() throws Exception {
        Events children = new Events();
        Events persistent = new Events();
        String path = create("/r");
        zk.getData(path, events, null);
        zk.getChildren(path, children);
        zk.addWatch(path, persistent, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.removeWatches(path, events, WatcherType.Data, false);
        events.expect(EventType.DataWatchRemoved, path);
        zk.removeWatches(path, children, WatcherType.Children, false);
        children.expect(EventType.ChildWatchRemoved, path);
        zk.removeWatches(path, persistent, WatcherType.Any, false);
        persistent.expect(EventType.PersistentWatchRemoved, path);
        other.setData(path, null, -1);
        create("/r/kid");
        flushEvents();
        events.expectNone();
        children.expectNone();
        persistent.expectNone();
        assertThrows(KeeperException.NoWatcherException.class,
                () -> zk.removeWatches(path, events, WatcherType.Any, false));
    }

    @Test
    void oneOfTwoWatchersIsRemovedAlone() throws Exception {
        Events second = new Events();
        String path = create("/two");
        zk.getData(path, events, null);
        zk.getData(path, second, null);
        zk.removeWatches(path, events, WatcherType.Data, false);
        events.expect(EventType.DataWatchRemoved, path);
        other.setData(path, null, -1);
        second.expect(EventType.NodeDataChanged, path);
        events.expectNone();
    }

    @Test
    void removeAllTakesEveryWatcherOfAPath() throws Exception {
        Events second = new Events();
        String path = create("/all");
        zk.getData(path, events, null);
        zk.exists(path, second);
        zk.removeAllWatches(path, WatcherType.Any, false);
        events.expect(EventType.DataWatchRemoved, path);
        second.expect(EventType.DataWatchRemoved, path);
        other.setData(path, null, -1);
        flushEvents();
        events.expectNone();
        second.expectNone();
    }

    @Test
    void anEventComesBeforeTheDataItAnnounces() throws Exception {
        String path = create("/o");
        for (int i = 0; i < 200; i++) {
            Events before = new Events();
            int version = zk.setData(path, null, -1).getVersion();
            zk.getData(path, before, null);
            other.setData(path, null, -1);
            while (zk.exists(path, false).getVersion() == version) {
                Thread.onSpinWait();
            }
            // The event thread and this thread are two: the event was queued first, so it is short of here
            // by a hand-over only.
            before.expect(EventType.NodeDataChanged, path);
            assertEquals(0, before.size());
        }
    }
}
