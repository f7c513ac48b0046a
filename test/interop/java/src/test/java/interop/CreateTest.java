package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CreateTest {
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
        return zk.create(base + name, "data".getBytes(), Ids.OPEN_ACL_UNSAFE, mode);
    }

    @Test
    void persistentHasAFullStat() throws Exception {
        Stat stat = new Stat();
        String path = zk.create(base + "/p", "data".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
        assertEquals(base + "/p", path);
        assertEquals(stat, zk.exists(path, false));
        assertEquals(stat.getCzxid(), stat.getMzxid());
        assertEquals(stat.getCzxid(), stat.getPzxid());
        assertEquals(stat.getCtime(), stat.getMtime());
        assertTrue(Math.abs(stat.getCtime() - System.currentTimeMillis()) < 60_000);
        assertEquals(0, stat.getVersion());
        assertEquals(0, stat.getCversion());
        assertEquals(0, stat.getAversion());
        assertEquals(0, stat.getEphemeralOwner());
        assertEquals(4, stat.getDataLength());
        assertEquals(0, stat.getNumChildren());
    }

    @Test
    void parentCountsItsChildren() throws Exception {
        create("/a", CreateMode.PERSISTENT);
        create("/b", CreateMode.PERSISTENT);
        zk.delete(base + "/a", -1);
        Stat stat = zk.exists(base, false);
        assertEquals(3, stat.getCversion());
        assertEquals(1, stat.getNumChildren());
        assertTrue(stat.getPzxid() > zk.exists(base + "/b", false).getCzxid());
    }

    @Test
    void ephemeralBelongsToItsSessionAndGoesWithIt() throws Exception {
        ZooKeeper other = Target.connect();
        String path = other.create(base + "/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        assertEquals(other.getSessionId(), zk.exists(path, false).getEphemeralOwner());
        assertThrows(KeeperException.NoChildrenForEphemeralsException.class,
                () -> zk.create(path + "/child", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        other.close();
        assertNull(zk.exists(path, false));
    }

    @Test
    void sequentialNamesCountTheParentsCreates() throws Exception {
        assertEquals(base + "/n-0000000000", create("/n-", CreateMode.PERSISTENT_SEQUENTIAL));
        create("/plain", CreateMode.PERSISTENT);
        assertEquals(base + "/n-0000000002", create("/n-", CreateMode.EPHEMERAL_SEQUENTIAL));
        zk.delete(base + "/n-0000000002", 0);
        assertEquals(base + "/0000000003", create("/", CreateMode.PERSISTENT_SEQUENTIAL));
    }

    @Test
    void containerGoesAfterItsLastChild() throws Exception {
        Stat stat = new Stat();
        String path = zk.create(base + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        assertEquals(0, stat.getEphemeralOwner());
        zk.create(path + "/child", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.delete(path + "/child", -1);
        Target.await("container removed", () -> zk.exists(path, false) == null);
    }

    @Test
    void ttlNodeGoesWhenItIsOld() throws Exception {
        Stat stat = new Stat();
        String path = zk.create(base + "/t", "x".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL,
                stat, 300);
        assertEquals(0, stat.getEphemeralOwner());
        Target.await("TTL znode removed", () -> zk.exists(path, false) == null);
    }

    @Test
    void ttlSequentialWithChildrenStays() throws Exception {
        String path = zk.create(base + "/t-", null, Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, new Stat(), 100);
        assertEquals(base + "/t-0000000000", path);
        zk.create(path + "/child", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        String probe = zk.create(base + "/probe", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL,
                new Stat(), 400);
        Target.await("younger TTL znode removed", () -> zk.exists(probe, false) == null);
        assertNotNull(zk.exists(path, false));
    }

    @Test
    void nullAndEmptyDataDiffer() throws Exception {
        zk.create(base + "/null", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create(base + "/empty", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        assertNull(zk.getData(base + "/null", false, null));
        assertArrayEquals(new byte[0], zk.getData(base + "/empty", false, null));
    }

    @Test
    void createFailsAsItShould() throws Exception {
        create("/x", CreateMode.PERSISTENT);
        assertThrows(KeeperException.NodeExistsException.class, () -> create("/x", CreateMode.PERSISTENT));
        assertThrows(KeeperException.NoNodeException.class, () -> create("/no/where", CreateMode.PERSISTENT));
        assertThrows(KeeperException.InvalidACLException.class,
                () -> zk.create(base + "/acl", null, List.of(), CreateMode.PERSISTENT));
    }

    @Test
    void deleteChecksVersionAndChildren() throws Exception {
        create("/d", CreateMode.PERSISTENT);
        create("/d/child", CreateMode.PERSISTENT);
        assertThrows(KeeperException.NotEmptyException.class, () -> zk.delete(base + "/d", -1));
        assertThrows(KeeperException.BadVersionException.class, () -> zk.delete(base + "/d/child", 7));
        zk.delete(base + "/d/child", 0);
        zk.delete(base + "/d", -1);
        assertThrows(KeeperException.NoNodeException.class, () -> zk.delete(base + "/d", -1));
    }

    @Test
    void unicodeNamesSurvive() throws Exception {
        String path = create("/größe-名前", CreateMode.PERSISTENT);
        assertEquals(List.of("größe-名前"), zk.getChildren(base, false));
        assertArrayEquals("data".getBytes(), zk.getData(path, false, null));
    }
}
