package interop;

import static org.junit.jupiter.api.Assertions.fail;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

/** The server under test, and what every test needs of it. */
final class Target {
    /** host:port of the server, from the environment. */
    static final String ADDRESS = System.getenv().getOrDefault("ZK_ADDRESS", "127.0.0.1:2181");

    /** Long enough for a busy machine of two cores, far below a test's limit. */
    static final long WAIT_MS = 20_000;

    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final String RUN = "/java-" + Long.toHexString(System.nanoTime());

    private Target() {}

    static int port() {
        return Integer.parseInt(ADDRESS.substring(ADDRESS.lastIndexOf(':') + 1));
    }

    static ZooKeeper connect() throws Exception {
        return connect(ADDRESS, 10_000);
    }

    static ZooKeeper connect(String address, int timeoutMs) throws Exception {
        return connect(address, timeoutMs, event -> {});
    }

    static ZooKeeper connect(String address, int timeoutMs, Watcher watcher) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(address, timeoutMs, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
            watcher.process(event);
        }, new ZKClientConfig());
        if (!connected.await(WAIT_MS, TimeUnit.MILLISECONDS)) {
            zk.close();
            fail("no connection to " + address);
        }
        return zk;
    }

    static CuratorFramework curator() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(ADDRESS)
                .sessionTimeoutMs(8_000).connectionTimeoutMs(8_000).retryPolicy(new RetryOneTime(100)).build();
        client.start();
        if (!client.blockUntilConnected((int) WAIT_MS, TimeUnit.MILLISECONDS)) {
            fail("curator: no connection to " + ADDRESS);
        }
        return client;
    }

    /** A znode of its own for one test, under which it works. */
    static String fresh(ZooKeeper zk) throws Exception {
        if (zk.exists(RUN, false) == null) {
            zk.create(RUN, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        return zk.create(RUN + "/" + COUNT.incrementAndGet(), new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT);
    }

    /** A path that nobody else uses and that does not exist yet. */
    static String freshPath() {
        return RUN + "c/" + COUNT.incrementAndGet();
    }

    static void await(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS);
        while (!condition.holds()) {
            if (System.nanoTime() > end) {
                fail("did not happen within " + WAIT_MS + " ms: " + what);
            }
            Thread.sleep(20);
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }
}
