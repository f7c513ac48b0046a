package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class MultiTest {
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

    @Test
    void allKindsOfChangeInOneMulti() throws Exception {
        List<OpResult> results = zk.multi(List.of(
                Op.check(base, 0),
                Op.create(base + "/a", "a".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.create(base + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create(base + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER),
                Op.create(base + "/t", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 100_000),
                Op.setData(base + "/a", "b".getBytes(), 0),
                Op.create(base + "/gone", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.delete(base + "/gone", 0)));
        assertEquals(8, results.size());
        assertEquals(base + "/s-0000000001", ((OpResult.CreateResult) results.get(2)).getPath());
        assertEquals(1, ((OpResult.SetDataResult) results.get(5)).getStat().getVersion());
        Stat a = zk.exists(base + "/a", false);
        Stat s = zk.exists(base + "/s-0000000001", false);
        assertEquals(a.getCzxid(), a.getMzxid());
        assertEquals(a.getCzxid(), s.getCzxid());
        assertEquals(zk.getSessionId(), s.getEphemeralOwner());
        assertNull(zk.exists(base + "/gone", false));
    }

    @Test
    void oneFailureUndoesAll() throws Exception {
        KeeperException e = assertThrows(KeeperException.NoNodeException.class, () -> zk.multi(List.of(
                Op.create(base + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.delete(base + "/none", -1),
                Op.setData(base, null, -1))));
        List<OpResult> results = e.getResults();
        assertEquals(List.of(Code.OK.intValue(), Code.NONODE.intValue(), Code.RUNTIMEINCONSISTENCY.intValue()),
                List.of(error(results.get(0)), error(results.get(1)), error(results.get(2))));
        assertNull(zk.exists(base + "/a", false));
        assertEquals(0, zk.exists(base, false).getVersion());
        // The sequence of the parent is rolled back as well.
        assertEquals(base + "/n-0000000000",
                zk.create(base + "/n-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL));
    }

    private static int error(OpResult result) {
        return ((OpResult.ErrorResult) result).getErr();
    }

    @Test
    void aFailedCheckIsBadVersion() {
        assertThrows(KeeperException.BadVersionException.class, () -> zk.transaction()
                .check(base, 5).create(base + "/x", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT).commit());
    }

    @Test
    void anEmptyMultiIsFine() throws Exception {
        assertEquals(List.of(), zk.multi(List.of()));
    }

    @Test
    void watchesFireForEachChangeOfAMulti() throws Exception {
        Events data = new Events();
        Events children = new Events();
        zk.getData(base, data, null);
        zk.getChildren(base, children);
        zk.multi(List.of(Op.create(base + "/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData(base, null, -1), Op.delete(base + "/a", -1)));
        children.expect(EventType.NodeChildrenChanged, base);
        data.expect(EventType.NodeDataChanged, base);
        zk.exists(base, false);
        children.expectNone();
        data.expectNone();
    }

    @Test
    void multiReadReturnsDataChildrenAndErrors() throws Exception {
        zk.setData(base, "hello".getBytes(), -1);
        zk.create(base + "/kid", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        List<OpResult> results =
                zk.multi(List.of(Op.getData(base), Op.getChildren(base), Op.getData(base + "/none")));
        OpResult.GetDataResult data = (OpResult.GetDataResult) results.get(0);
        assertArrayEquals("hello".getBytes(), data.getData());
        assertEquals(1, data.getStat().getVersion());
        assertEquals(List.of("kid"), ((OpResult.GetChildrenResult) results.get(1)).getChildren());
        assertEquals(Code.NONODE.intValue(), error(results.get(2)));
    }

    @Test
    void aMultiOfAThousandIsOneTransaction() throws Exception {
        List<Op> ops = new java.util.ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            ops.add(Op.create(base + "/" + i, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        }
        assertEquals(1000, zk.multi(ops).size());
        Stat stat = zk.exists(base, false);
        assertEquals(1000, stat.getNumChildren());
        assertNotNull(zk.exists(base + "/999", false));
        assertEquals(stat.getPzxid(), zk.exists(base + "/0", false).getCzxid());
    }
}
