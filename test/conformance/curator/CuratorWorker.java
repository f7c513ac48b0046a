import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.RetryForever;

/**
 * A process of the experiment with pauses (package lostupdate) that leads with
 * Curator's LeaderLatch and asks hasLeadership. It leads for a second at a time,
 * so that leadership goes round. The latch has no token to fence with.
 *
 * Arguments: the server's and the registers' address.
 */
public class CuratorWorker {
    private static final int LEASE_MS = 2000;
    private static final long HOLD_MS = 1000;

    private final BufferedReader answers;
    private final PrintWriter lines;
    private final String name = UUID.randomUUID().toString();
    private int turns;
    private static volatile boolean ended;

    private CuratorWorker(Socket registers) throws IOException {
        registers.setTcpNoDelay(true);
        answers = new BufferedReader(new InputStreamReader(registers.getInputStream()));
        lines = new PrintWriter(registers.getOutputStream(), true);
    }

    public static void main(String[] args) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException e) {
                // the same as the end
            }
            ended = true;
        });
        input.setDaemon(true);
        input.start();
        int colon = args[1].lastIndexOf(':');
        Socket registers = new Socket(args[1].substring(0, colon), Integer.parseInt(args[1].substring(colon + 1)));
        CuratorWorker worker = new CuratorWorker(registers);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], LEASE_MS, LEASE_MS, new RetryForever(50));
        client.start();
        while (!ended) {
            try (LeaderLatch latch = new LeaderLatch(client, "/experiment")) {
                latch.start();
                while (!ended && !latch.await(100, TimeUnit.MILLISECONDS)) {}
                worker.lead(latch);
            }
        }
        client.close();
        System.exit(0);
    }

    private void lead(LeaderLatch latch) throws Exception {
        if (ended) {
            return;
        }
        System.out.println("elected 0");
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(HOLD_MS);
        while (!ended && latch.hasLeadership() && System.nanoTime() < end) {
            update(latch);
        }
    }

    private void update(LeaderLatch latch) throws Exception {
        String id = name + "." + ++turns;
        String naive = value("naive");
        String checked = value("checked");
        Thread.sleep(1);
        ask("write naive 0 " + id + " " + naive);
        if (latch.hasLeadership()) {
            ask("write checked 0 " + id + " " + checked);
        }
    }

    private String value(String register) throws IOException {
        return ask("read " + register + " 0").substring("value ".length());
    }

    private String ask(String line) throws IOException {
        lines.println(line);
        String answer = answers.readLine();
        if (answer == null || answer.startsWith("error")) {
            throw new IOException("the register answered " + answer);
        }
        return answer;
    }
}
