import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

/** One candidate with Curator's LeaderLatch: prints its id when it leads. */
public class LatchCandidate {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 4000, 4000, new RetryOneTime(100));
        client.start();
        LeaderLatch latch = new LeaderLatch(client, args[1], args[2]);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                System.out.println(args[2]);
            }

            @Override
            public void notLeader() {}
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                latch.close();
                client.close();
            } catch (Exception e) {
                System.err.println(e);
            }
        }));
        latch.start();
        new CountDownLatch(1).await();
    }
}
