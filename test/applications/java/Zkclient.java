import java.util.List;
import org.I0Itec.zkclient.IZkDataListener;
import org.I0Itec.zkclient.IZkStateListener;
import org.I0Itec.zkclient.ZkClient;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;

/** Counts in a znode through zkclient, whose one thread for events prints what it is told. */
public class Zkclient {
  public static void main(String[] args) throws Exception {
    ZkClient client = new ZkClient(args[0], 6000, 30000);
    client.subscribeStateChanges(new IZkStateListener() {
      @Override
      public void handleStateChanged(Watcher.Event.KeeperState state) {
        System.out.println("state " + state);
      }

      @Override
      public void handleNewSession() {
        System.out.println("a new session");
      }

      @Override
      public void handleSessionEstablishmentError(Throwable error) {
        System.out.println("no session: " + error);
      }
    });
    client.createPersistent("/zkclient/acl", true);
    client.createEphemeral("/zkclient/ephemeral");
    client.createPersistent("/zkclient/count", -1L);
    client.multi(List.of(Op.create("/zkclient/m", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
        Op.delete("/zkclient/m", -1)));
    client.addAuthInfo("digest", "u:p".getBytes());
    client.setAcl("/zkclient/acl", ZooDefs.Ids.CREATOR_ALL_ACL);
    client.subscribeDataChanges("/zkclient/count", new IZkDataListener() {
      @Override
      public void handleDataChange(String path, Object data) {
        System.out.println("watched " + data);
      }

      @Override
      public void handleDataDeleted(String path) {}
    });
    for (long i = 0; ; i++) {
      client.writeData("/zkclient/count", i);
      System.out.println("acknowledged " + i);
      if (!client.exists("/zkclient/ephemeral") || (Long) client.readData("/zkclient/count") != i) {
        System.out.println("lost " + i);
      }
      Thread.sleep(10);
    }
  }
}
