import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/**
 * Connects with the JAAS file that Java was given, and prints who the client is, in lines that begin with >. With a
 * path it makes a znode that the name alone may read, or says what came of reading it.
 */
public class Whoami {
    public static void main(String[] args) throws Exception {
        BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        boolean proves = System.getProperty("java.security.auth.login.config") != null;
        try (ZooKeeper zk = new ZooKeeper(args[0], 10000, e -> states.add(e.getState()))) {
            KeeperState state = states.poll(30, TimeUnit.SECONDS);
            while (state == KeeperState.SyncConnected && proves) {
                state = states.poll(30, TimeUnit.SECONDS);
            }
            System.out.println("> state " + state);
            if (state == KeeperState.AuthFailed) {
                return;
            }
            for (ClientInfo who : zk.whoAmI()) {
                System.out.println("> " + who.getAuthScheme() + " " + who.getUser());
            }
            try {
                if (args.length == 3) {
                    List<ACL> own = Collections.singletonList(new ACL(ZooDefs.Perms.ALL, new Id("sasl", args[2])));
                    System.out.println("> made " + zk.create(args[1], new byte[0], own, CreateMode.PERSISTENT));
                } else if (args.length == 2) {
                    System.out.println("> read " + zk.getData(args[1], false, null).length);
                }
            } catch (KeeperException e) {
                System.out.println("> code " + e.code());
            }
        }
    }
}
