package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CuratorNodeTest {
    private CuratorFramework one;
    private CuratorFramework two;
    private String path;

    @BeforeEach
    void open() throws Exception {
        one = Target.curator();
        two = Target.curator();
        path = Target.freshPath();
    }

    @AfterEach
    void close() {
        one.close();
        two.close();
    }

    @Test
    void persistentNodeComesBackWhenDeleted() throws Exception {
        try (PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, path, "x".getBytes())) {
            node.start();
            assertTrue(node.waitForInitialCreate(20, TimeUnit.SECONDS));
            long before = two.checkExists().forPath(path).getCzxid();
            two.delete().forPath(path);
            Target.await("created again", () -> {
                var stat = two.checkExists().forPath(path);
                return stat != null && stat.getCzxid() > before;
            });
            node.setData("y".getBytes());
            Target.await("new data", () -> "y".equals(new String(two.getData().forPath(path))));
        }
        Target.await("gone after close", () -> two.checkExists().forPath(path) == null);
    }

    @Test
    void persistentTtlNodeIsKeptAliveByItsOwner() throws Exception {
        try (PersistentTtlNode node = new PersistentTtlNode(one, path, 2_000, "x".getBytes())) {
            node.start();
            assertTrue(node.waitForInitialCreate(20, TimeUnit.SECONDS));
            assertNotNull(two.checkExists().forPath(path));
        }
        Target.await("gone after close", () -> two.checkExists().forPath(path) == null);
    }

    @Test
    void cacheFollowsASubtree() throws Exception {
        Set<String> log = new ConcurrentSkipListSet<>();
        two.create().creatingParentsIfNeeded().forPath(path + "/before", "b".getBytes());
        try (CuratorCache cache = CuratorCache.build(one, path)) {
            cache.listenable().addListener(CuratorCacheListener.builder()
                    .forCreates(data -> log.add("+" + data.getPath().substring(path.length())))
                    .forDeletes(data -> log.add("-" + data.getPath().substring(path.length())))
                    .forChanges((old, now) -> log.add("=" + new String(now.getData()))).build());
            cache.start();
            Target.await("initial state", () -> cache.get(path + "/before").isPresent());
            two.create().forPath(path + "/after", "a".getBytes());
            two.create().forPath(path + "/after/deep", "d".getBytes());
            two.setData().forPath(path + "/before", "changed".getBytes());
            two.delete().forPath(path + "/after/deep");
            Target.await("all changes", () -> log.containsAll(Set.of("+/before", "+/after", "=changed"))
                    && (log.contains("-/after/deep") || cache.get(path + "/after/deep").isEmpty()));
            assertEquals("changed", new String(cache.get(path + "/before").get().getData()));
        }
    }

    @Test
    void groupMembersSeeEachOther() throws Exception {
        GroupMember a = new GroupMember(one, path, "a", "A".getBytes());
        GroupMember b = new GroupMember(two, path, "b", "B".getBytes());
        a.start();
        b.start();
        Target.await("both in the group", () -> a.getCurrentMembers().keySet().equals(Set.of("a", "b")));
        Map<String, byte[]> members = a.getCurrentMembers();
        assertEquals("B", new String(members.get("b")));
        b.close();
        Target.await("one left", () -> a.getCurrentMembers().keySet().equals(Set.of("a")));
        a.close();
    }

    @Test
    void persistentWatcherSeesEveryChange() throws Exception {
        Set<String> seen = new ConcurrentSkipListSet<>();
        try (PersistentWatcher watcher = new PersistentWatcher(one, path, true)) {
            watcher.getListenable().addListener(e -> {
                if (e.getPath() != null) {
                    seen.add(e.getType() + " " + e.getPath().substring(path.length()));
                }
            });
            watcher.start();
            Target.await("watch is set", () -> {
                two.createContainers(path);
                two.setData().forPath(path);
                return seen.contains("NodeDataChanged ");
            });
            two.create().forPath(path + "/kid");
            two.delete().forPath(path + "/kid");
            Target.await("events", () -> seen.containsAll(List.of("NodeCreated /kid", "NodeDeleted /kid")));
        }
    }

    @Test
    void transactionsAndContainerParents() throws Exception {
        one.createContainers(path);
        List<CuratorTransactionResult> results = one.transaction().forOperations(
                one.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(path + "/t-"),
                one.transactionOp().setData().forPath(path, "data".getBytes()),
                one.transactionOp().check().withVersion(1).forPath(path));
        assertEquals(3, results.size());
        String made = results.get(0).getResultPath();
        two.delete().guaranteed().forPath(made);
        Target.await("empty container removed", () -> two.checkExists().forPath(path) == null);
        assertNull(two.checkExists().forPath(path));
    }

    @Test
    void protectedCreateAndRecursiveDelete() throws Exception {
        String made = one.create().creatingParentsIfNeeded().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path + "/p-");
        assertTrue(made.contains("_c_"));
        one.create().creatingParentsIfNeeded().forPath(path + "/a/b/c");
        one.delete().deletingChildrenIfNeeded().forPath(path);
        assertNull(two.checkExists().forPath(path));
    }
}
