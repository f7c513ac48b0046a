package interop;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class ComingFromCurator {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient("127.0.0.1:2181", new ExponentialBackoffRetry(100, 5));
                LeaderLatch latch = new LeaderLatch(client, "/billing/nightly", "host-1")) {
            client.start();
            latch.start();
            latch.await();
            while (latch.hasLeadership()) {
                billOne();
            }
        }
    }

    private static void billOne() throws InterruptedException {
        Thread.sleep(100);
    }
}
