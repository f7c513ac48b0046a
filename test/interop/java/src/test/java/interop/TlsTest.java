package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.junit.jupiter.api.Test;

/** Clients that show a certificate: run where the suite runs over TLS alone. */
class TlsTest {
    private static ZooKeeper certified() throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty("zookeeper.ssl.keyStore.location", System.getenv("ZK_TLS") + "/client-both.pem");
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(Target.ADDRESS, 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, config);
        assertTrue(connected.await(Target.WAIT_MS, TimeUnit.MILLISECONDS), "no connection");
        return zk;
    }

    @Test
    void theNameOfACertificateIsAnIdentity() throws Exception {
        try (ZooKeeper owner = certified(); ZooKeeper nobody = Target.connect()) {
            String path = owner.create("/tls-", "x".getBytes(), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT_SEQUENTIAL);
            ACL own = new ACL(Perms.ALL, new Id("x509", "CN=client,O=Conclave"));
            assertEquals(List.of(own), owner.getACL(path, null));
            assertEquals("x", new String(owner.getData(path, false, null)));
            assertThrows(KeeperException.NoAuthException.class, () -> nobody.getData(path, false, null));
        }
    }

    @Test
    void largeValuesComeWhole() throws Exception {
        try (ZooKeeper zk = certified()) {
            byte[] data = new byte[900_000];
            for (int i = 0; i < data.length; i++) {
                data[i] = (byte) i;
            }
            String path = zk.create("/large-", data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
            assertArrayEquals(data, zk.getData(path, false, null));
        }
    }
}
