import java.util.Map;
import org.apache.helix.HelixAdmin;
import org.apache.helix.HelixManager;
import org.apache.helix.HelixManagerFactory;
import org.apache.helix.InstanceType;
import org.apache.helix.NotificationContext;
import org.apache.helix.controller.HelixControllerMain;
import org.apache.helix.manager.zk.ZKHelixAdmin;
import org.apache.helix.model.ExternalView;
import org.apache.helix.model.HelixConfigScope;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.LiveInstance;
import org.apache.helix.model.LeaderStandbySMD;
import org.apache.helix.model.Message;
import org.apache.helix.model.builder.HelixConfigScopeBuilder;
import org.apache.helix.participant.statemachine.StateModel;
import org.apache.helix.participant.statemachine.StateModelFactory;
import org.apache.helix.participant.statemachine.StateModelInfo;
import org.apache.helix.participant.statemachine.Transition;

/**
 * A process of a cluster of Helix, by its first argument: "setup" creates the cluster, "controller" and "participant"
 * (with a name) are what they say, and "watch" prints how many leaders and standbys there are, whenever that changes.
 */
public class Helix {
  static final int PARTITIONS = 8;

  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "setup": setup(args[1]); break;
      case "controller":
        HelixControllerMain.startHelixController(args[1], "c", args[2], HelixControllerMain.STANDALONE);
        System.out.println("started");
        Thread.currentThread().join();
        break;
      case "participant": participant(args[1], args[2]); break;
      default: watch(args[1]);
    }
  }

  static void setup(String connect) {
    HelixAdmin admin = new ZKHelixAdmin(connect);
    admin.addCluster("c");
    HelixConfigScope scope =
        new HelixConfigScopeBuilder(HelixConfigScope.ConfigScopeProperty.CLUSTER).forCluster("c").build();
    admin.setConfig(scope, Map.of("allowParticipantAutoJoin", "true"));
    admin.addStateModelDef("c", LeaderStandbySMD.name, LeaderStandbySMD.build());
    admin.addResource("c", "r", PARTITIONS, LeaderStandbySMD.name, IdealState.RebalanceMode.FULL_AUTO.name());
    admin.rebalance("c", "r", 2);
    System.out.println("set up");
    System.exit(0);
  }

  static void participant(String connect, String name) throws Exception {
    HelixManager manager = HelixManagerFactory.getZKHelixManager("c", name, InstanceType.PARTICIPANT, connect);
    manager.getStateMachineEngine().registerStateModelFactory(LeaderStandbySMD.name, new Factory());
    manager.connect();
    System.out.println("started");
    Thread.currentThread().join();
  }

  public static class Factory extends StateModelFactory<Model> {
    @Override
    public Model createNewStateModel(String resource, String partition) {
      return new Model();
    }
  }

  @StateModelInfo(initialState = "OFFLINE", states = {"OFFLINE", "STANDBY", "LEADER", "DROPPED"})
  public static class Model extends StateModel {
    @Transition(from = "*", to = "*")
    public void move(Message message, NotificationContext context) {
      System.out.println(message.getPartitionName() + " " + message.getFromState() + " to " + message.getToState());
    }
  }

  static void watch(String connect) throws Exception {
    HelixManager manager = HelixManagerFactory.getZKHelixManager("c", "watch", InstanceType.SPECTATOR, connect);
    manager.connect();
    String before = "";
    for (; ; Thread.sleep(100)) {
      String now;
      try {
        now = describe(manager);
      } catch (Exception e) {
        now = "unknown: " + e;
      }
      if (!now.equals(before)) {
        System.out.println(now);
        before = now;
      }
    }
  }

  static String describe(HelixManager manager) {
    var data = manager.getHelixDataAccessor();
    var keys = data.keyBuilder();
    var live = data.getChildNames(keys.liveInstances());
    LiveInstance leader = data.getProperty(keys.controllerLeader());
    ExternalView view = data.getProperty(keys.externalView("r"));
    int leaders = 0, standbys = 0, whole = 0;
    for (String partition : view == null ? java.util.Set.<String>of() : view.getPartitionSet()) {
      int m = 0, s = 0;
      for (Map.Entry<String, String> e : view.getStateMap(partition).entrySet()) {
        if (!live.contains(e.getKey())) {
          continue;
        }
        m += e.getValue().equals("LEADER") ? 1 : 0;
        s += e.getValue().equals("STANDBY") ? 1 : 0;
      }
      leaders += m;
      standbys += s;
      whole += m == 1 && s == 1 ? 1 : 0;
    }
    return "view: controller " + (leader == null ? "none" : leader.getInstanceName()) + ", live " + live + ", leaders " + leaders
        + ", standbys " + standbys + ", whole " + whole;
  }
}
