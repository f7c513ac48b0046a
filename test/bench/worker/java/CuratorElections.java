import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryForever;

/**
 * A process full of Curator's LeaderLatches, for `bench elections`: it prints what
 * the Go worker beside it prints.
 *
 * Arguments: the server's address, elections, candidates of each, clients, lease in
 * milliseconds, what the names of the candidates begin with.
 */
public class CuratorElections {
    public static void main(String[] args) throws Exception {
        int elections = Integer.parseInt(args[1]);
        int candidates = Integer.parseInt(args[2]);
        int lease = Integer.parseInt(args[4]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], lease, lease, new RetryForever(50));
            client.start();
            clients.add(client);
        }
        List<LeaderLatch> latches = new ArrayList<>();
        for (int n = 0; n < elections * candidates; n++) {
            String name = "bench-" + n % elections;
            LeaderLatch latch = new LeaderLatch(clients.get(n % clients.size()), "/own/" + name, args[5] + n / elections);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    say("led " + name);
                }

                @Override
                public void notLeader() {}
            });
            latches.add(latch);
            latch.start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.gc();
            say("calm " + Thread.activeCount());
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
