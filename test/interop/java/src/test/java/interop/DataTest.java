package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Stat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class DataTest {
    private ZooKeeper zk;
    private String base;

    @BeforeEach
    void open() throws Exception {
        zk = Target.connect();
        base = Target.fresh(zk);
    }

    @AfterEach
    void close() throws Exception {
        zk.close();
    }

    private String create(String name, CreateMode mode) throws Exception {
        return zk.create(base + name, null, Ids.OPEN_ACL_UNSAFE, mode);
    }

    @Test
    void setDataCountsVersions() throws Exception {
        Stat first = zk.setData(base, "one".getBytes(), 0);
        assertEquals(1, first.getVersion());
        assertEquals(3, first.getDataLength());
        assertTrue(first.getMzxid() > first.getCzxid());
        assertThrows(KeeperException.BadVersionException.class, () -> zk.setData(base, null, 0));
        Stat second = zk.setData(base, null, -1);
        assertEquals(2, second.getVersion());
        Stat read = new Stat();
        assertNull(zk.getData(base, false, read));
        assertEquals(second, read);
        assertThrows(KeeperException.NoNodeException.class, () -> zk.setData(base + "/none", null, -1));
        assertThrows(KeeperException.NoNodeException.class, () -> zk.getData(base + "/none", false, null));
        assertNull(zk.exists(base + "/none", false));
    }

    @Test
    void childrenComeWithStat() throws Exception {
        for (String name : List.of("/b", "/a", "/c")) {
            create(name, CreateMode.PERSISTENT);
        }
        Stat stat = new Stat();
        List<String> children = zk.getChildren(base, false, stat);
        Collections.sort(children);
        assertEquals(List.of("a", "b", "c"), children);
        assertEquals(3, stat.getNumChildren());
        assertThrows(KeeperException.NoNodeException.class, () -> zk.getChildren(base + "/none", false));
    }

    @Test
    void allChildrenNumberCountsDescendants() throws Exception {
        create("/a", CreateMode.PERSISTENT);
        create("/a/b", CreateMode.PERSISTENT);
        create("/a/b/c", CreateMode.PERSISTENT);
        create("/ab", CreateMode.PERSISTENT);
        assertEquals(4, zk.getAllChildrenNumber(base));
        assertEquals(2, zk.getAllChildrenNumber(base + "/a"));
        assertEquals(0, zk.getAllChildrenNumber(base + "/a/b/c"));
    }

    @Test
    void ephemeralsAreListedPerSessionAndPrefix() throws Exception {
        String one = create("/one", CreateMode.EPHEMERAL);
        String two = create("/two", CreateMode.EPHEMERAL);
        create("/sub", CreateMode.PERSISTENT);
        String three = create("/sub/three", CreateMode.EPHEMERAL);
        List<String> all = new ArrayList<>(zk.getEphemerals());
        Collections.sort(all);
        assertEquals(List.of(one, three, two), all);
        assertEquals(List.of(three), zk.getEphemerals(base + "/sub"));
        ZooKeeper other = Target.connect();
        assertEquals(List.of(), other.getEphemerals());
        other.close();
    }

    @Test
    void whoAmIListsIdentities() throws Exception {
        zk.addAuthInfo("digest", "alice:secret".getBytes());
        List<String> who = new ArrayList<>();
        for (ClientInfo info : zk.whoAmI()) {
            who.add(info.getAuthScheme() + " " + info.getUser());
        }
        Collections.sort(who);
        assertEquals(List.of("digest alice", "ip 127.0.0.1"), who);
    }

    @Test
    void syncReturnsItsPath() throws Exception {
        CompletableFuture<String> done = new CompletableFuture<>();
        zk.sync(base, (rc, path, ctx) -> done.complete(rc + " " + path), null);
        assertEquals("0 " + base, done.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aChrootHidesItsPrefix() throws Exception {
        ZooKeeper rooted = Target.connect(Target.ADDRESS + base, 10_000);
        String path = rooted.create("/in", "x".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        assertEquals("/in", path);
        Events events = new Events();
        rooted.getData("/in", events, null);
        zk.setData(base + "/in", null, -1);
        events.expect(org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged, "/in");
        assertEquals(List.of("in"), rooted.getChildren("/", false));
        rooted.close();
    }

    @Test
    void almostAMebibyteOfDataIsKept() throws Exception {
        byte[] large = new byte[1_040_000];
        new Random(1).nextBytes(large);
        zk.create(base + "/large", large, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        assertArrayEquals(large, zk.getData(base + "/large", false, null));
    }

    @Test
    void aFrameOverTheLimitCostsTheConnectionNotTheSession() throws Exception {
        long session = zk.getSessionId();
        String mine = create("/mine", CreateMode.EPHEMERAL);
        assertThrows(KeeperException.ConnectionLossException.class, () -> zk.setData(base, new byte[2_000_000], -1));
        Target.await("reconnected", () -> {
            try {
                return zk.exists(mine, false) != null;
            } catch (KeeperException.ConnectionLossException e) {
                return false;
            }
        });
        assertEquals(session, zk.getSessionId());
        assertEquals(0, zk.exists(base, false).getVersion());
    }

    @Test
    void tenThousandChildrenAreListed() throws Exception {
        int count = 10_000;
        CountDownLatch left = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            zk.create(base + "/child-" + i, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (rc, path, ctx, name) -> {
                        if (rc == 0) {
                            left.countDown();
                        }
                    }, null);
        }
        assertTrue(left.await(40, TimeUnit.SECONDS));
        assertEquals(count, zk.getChildren(base, false).size());
        assertEquals(count, zk.exists(base, false).getNumChildren());
    }

    @Test
    void pipelinedRepliesComeInOrder() throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        List<String> expected = new ArrayList<>();
        CountDownLatch left = new CountDownLatch(1200);
        for (int i = 0; i < 400; i++) {
            int n = i;
            zk.setData(base, ("v" + n).getBytes(), n, (rc, path, ctx, stat) -> {
                seen.add("set " + rc + " " + stat.getVersion());
                left.countDown();
            }, null);
            zk.getData(base, false, (rc, path, ctx, data, stat) -> {
                seen.add("get " + new String(data, StandardCharsets.UTF_8) + " " + stat.getVersion());
                left.countDown();
            }, null);
            zk.setData(base, null, 999_999, (rc, path, ctx, stat) -> {
                seen.add("bad " + Code.get(rc));
                left.countDown();
            }, null);
            expected.addAll(Arrays.asList("set 0 " + (n + 1), "get v" + n + " " + (n + 1), "bad BADVERSION"));
        }
        assertTrue(left.await(40, TimeUnit.SECONDS));
        assertEquals(expected, seen);
    }

    @Test
    void theConfigNodeIsReadable() throws Exception {
        Stat stat = new Stat();
        assertNotNull(zk.getConfig(false, stat));
        assertEquals(0, stat.getCzxid());
        assertThrows(KeeperException.NoAuthException.class, () -> zk.setData("/zookeeper/config", null, -1));
    }

    @Test
    void reconfigIsDisabledByDefault() throws Exception {
        try (ZooKeeperAdmin admin = new ZooKeeperAdmin(Target.ADDRESS, 10_000, event -> {})) {
            Target.await("connected", () -> admin.getState().isConnected());
            assertThrows(KeeperException.ReconfigDisabledException.class,
                    () -> admin.reconfigure("server.9=127.0.0.1:1:2;3", null, null, -1, new Stat()));
        }
    }

    @Test
    void builtInNodesCannotBeDeleted() throws Exception {
        assertThrows(KeeperException.BadArgumentsException.class, () -> zk.delete("/zookeeper", -1));
        assertTrue(zk.getChildren("/zookeeper", false).containsAll(List.of("config", "quota")));
    }
}
