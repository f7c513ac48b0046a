package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class SessionTest {
    private ZooKeeper zk;
    private CutProxy proxy;
    private String base;

    @BeforeEach
    void open() throws Exception {
        zk = Target.connect();
        proxy = new CutProxy();
        base = Target.fresh(zk);
    }

    @AfterEach
    void close() throws Exception {
        zk.close();
        proxy.close();
    }

    @Test
    void aCutConnectionKeepsSessionAndEphemerals() throws Exception {
        ZooKeeper client = Target.connect(proxy.address(), 8_000);
        long id = client.getSessionId();
        byte[] password = client.getSessionPasswd().clone();
        client.create(base + "/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        for (int i = 0; i < 3; i++) {
            proxy.blink();
            awaitConnected(client);
            assertEquals(id, client.getSessionId());
            assertArrayEquals(password, client.getSessionPasswd());
            assertEquals(id, zk.exists(base + "/e", false).getEphemeralOwner());
        }
        client.close();
        assertNull(zk.exists(base + "/e", false));
    }

    private void awaitConnected(ZooKeeper client) throws Exception {
        Target.await("reconnected", () -> {
            try {
                client.exists("/", false);
                return true;
            } catch (KeeperException.ConnectionLossException e) {
                return false;
            }
        });
    }

    @Test
    void idAndPasswordReattachFromAnotherProcess() throws Exception {
        ZooKeeper first = Target.connect(proxy.address(), 8_000);
        first.create(base + "/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        proxy.cut();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper second = new ZooKeeper(Target.ADDRESS, 8_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, first.getSessionId(), first.getSessionPasswd());
        assertTrue(connected.await(20, TimeUnit.SECONDS));
        assertEquals(first.getSessionId(), second.getSessionId());
        assertEquals(List.of(base + "/e"), second.getEphemerals());
        second.close();
        assertNull(zk.exists(base + "/e", false));
        first.close();
    }

    @Test
    void aWrongPasswordIsAnExpiredSession() throws Exception {
        CountDownLatch expired = new CountDownLatch(1);
        ZooKeeper thief = new ZooKeeper(Target.ADDRESS, 8_000, event -> {
            if (event.getState() == KeeperState.Expired) {
                expired.countDown();
            }
        }, zk.getSessionId(), new byte[16]);
        assertTrue(expired.await(20, TimeUnit.SECONDS));
        assertThrows(KeeperException.SessionExpiredException.class, () -> thief.exists("/", false));
        awaitConnected(zk);
    }

    @Test
    void aSilentSessionExpiresAndItsEphemeralsGo() throws Exception {
        CountDownLatch expired = new CountDownLatch(1);
        ZooKeeper client = Target.connect(proxy.address(), 1_000, event -> {
            if (event.getState() == KeeperState.Expired) {
                expired.countDown();
            }
        });
        Events events = new Events();
        client.create(base + "/e1", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.create(base + "/e2", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        assertNotNull(zk.exists(base + "/e1", events));
        proxy.cut();
        events.expect(EventType.NodeDeleted, base + "/e1");
        assertNull(zk.exists(base + "/e2", false));
        proxy.heal();
        assertTrue(expired.await(20, TimeUnit.SECONDS));
        client.close();
    }

    @Test
    void theTimeoutIsNegotiated() throws Exception {
        ZooKeeper low = Target.connect(Target.ADDRESS, 300);
        assertEquals(1_000, low.getSessionTimeout());
        low.close();
        ZooKeeper high = Target.connect(Target.ADDRESS, 1_000_000);
        assertEquals(20_000, high.getSessionTimeout());
        high.close();
    }

    @Test
    void watchesAreSetAgainAfterACut() throws Exception {
        ZooKeeper client = Target.connect(proxy.address(), 8_000);
        create("/changed");
        create("/parent");
        create("/deleted");
        create("/quiet");
        Events changed = new Events();
        Events born = new Events();
        Events parent = new Events();
        Events deleted = new Events();
        Events quiet = new Events();
        Events persistent = new Events();
        Events recursive = new Events();
        client.getData(base + "/changed", changed, null);
        client.exists(base + "/born", born);
        client.getChildren(base + "/parent", parent);
        client.getData(base + "/deleted", deleted, null);
        client.getData(base + "/quiet", quiet, null);
        client.addWatch(base + "/quiet", persistent, AddWatchMode.PERSISTENT);
        client.addWatch(base, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        proxy.cut();
        zk.setData(base + "/changed", null, -1);
        create("/born");
        create("/parent/kid");
        zk.delete(base + "/deleted", -1);
        proxy.heal();
        changed.expect(EventType.NodeDataChanged, base + "/changed");
        born.expect(EventType.NodeCreated, base + "/born");
        parent.expect(EventType.NodeChildrenChanged, base + "/parent");
        deleted.expect(EventType.NodeDeleted, base + "/deleted");
        awaitConnected(client);
        quiet.expectNone();
        zk.setData(base + "/quiet", null, -1);
        quiet.expect(EventType.NodeDataChanged, base + "/quiet");
        persistent.expect(EventType.NodeDataChanged, base + "/quiet");
        // The recursive watch is dispatched the client's replayed events too; its own come after them.
        Target.await("recursive watch fires", () -> recursive.size() > 0);
        client.close();
    }

    private String create(String name) throws Exception {
        return zk.create(base + name, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    @Test
    void manyWatchesAreSetAgainInSeveralPackets() throws Exception {
        ZooKeeper client = Target.connect(proxy.address(), 8_000);
        int count = 3000;
        String prefix = base + "/" + "x".repeat(100);
        Events events = new Events();
        CountDownLatch set = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            client.exists(prefix + i, events, (rc, path, ctx, stat) -> set.countDown(), null);
        }
        assertTrue(set.await(20, TimeUnit.SECONDS));
        proxy.blink();
        awaitConnected(client);
        CountDownLatch made = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            zk.create(prefix + i, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (rc, path, ctx, name) -> made.countDown(), null);
        }
        assertTrue(made.await(20, TimeUnit.SECONDS));
        Target.await("all watches fired", () -> events.size() == count);
        client.close();
    }

    @Test
    void credentialsAreSentAgainAfterACut() throws Exception {
        ZooKeeper client = Target.connect(proxy.address(), 8_000);
        client.addAuthInfo("digest", "carol:pw".getBytes());
        client.create(base + "/mine", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        proxy.blink();
        awaitConnected(client);
        client.getData(base + "/mine", false, null);
        client.close();
    }

    @Test
    void aSecondHandleTakesTheSessionOver() throws Exception {
        List<KeeperState> states = new ArrayList<>();
        ZooKeeper first = Target.connect(Target.ADDRESS, 8_000, event -> {
            synchronized (states) {
                states.add(event.getState());
            }
        });
        ZooKeeper second = new ZooKeeper(Target.ADDRESS, 8_000, event -> {}, first.getSessionId(),
                first.getSessionPasswd());
        Target.await("first handle disconnected", () -> {
            synchronized (states) {
                return states.contains(KeeperState.Disconnected);
            }
        });
        second.close();
        first.close();
    }

    @Test
    void aClosedSessionIsGoneForItsOtherHandle() throws Exception {
        CountDownLatch expired = new CountDownLatch(1);
        ZooKeeper first = Target.connect(proxy.address(), 8_000, event -> {
            if (event.getState() == KeeperState.Expired) {
                expired.countDown();
            }
        });
        proxy.cut();
        ZooKeeper second = new ZooKeeper(Target.ADDRESS, 8_000, event -> {}, first.getSessionId(),
                first.getSessionPasswd());
        awaitConnected(second);
        second.close();
        proxy.heal();
        assertTrue(expired.await(20, TimeUnit.SECONDS));
        first.close();
    }
}
