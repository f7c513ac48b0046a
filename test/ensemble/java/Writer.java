import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Creates znodes below a path with Apache's client until its standard input
 * ends, and prints what it is told, one line each:
 *
 * <pre>
 *   created PATH ZXID    acknowledged
 *   unknown PATH         the connection was lost before the answer
 *   expired              the session was lost; a new one follows
 *   done
 * </pre>
 *
 * Arguments: servers, path, session timeout in ms, pause in ms.
 */
public class Writer {
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String parent = args[1];
        int timeout = Integer.parseInt(args[2]);
        long pause = Long.parseLong(args[3]);
        CountDownLatch end = new CountDownLatch(1);
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException e) {
                // The same as the end.
            }
            end.countDown();
        });
        input.setDaemon(true);
        input.start();
        ZooKeeper zk = open(servers, timeout);
        for (long n = 1; !end.await(pause, TimeUnit.MILLISECONDS); n++) {
            String path = String.format("%s/%08d", parent, n);
            try {
                Stat stat = new Stat();
                zk.create(path, path.getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat);
                System.out.println("created " + path + " " + stat.getCzxid());
            } catch (KeeperException.ConnectionLossException e) {
                System.out.println("unknown " + path);
            } catch (KeeperException.SessionExpiredException e) {
                System.out.println("expired");
                zk.close();
                zk = open(servers, timeout);
            }
        }
        zk.close();
        System.out.println("done");
    }

    private static ZooKeeper open(String servers, int timeout) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(servers, timeout, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        return zk;
    }
}
