import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.ha.HAServiceTarget;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.client.RMHAServiceTarget;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.client.api.YarnClientApplication;
import org.apache.hadoop.yarn.conf.HAUtil;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * A client of YARN: a thread submits applications, whose masters it is itself, and kills every second one;
 * and a port takes commands, one a line, with one line as the answer. What has been acknowledged is noted.
 */
public class YARN {
  static final List<ApplicationId> submitted = Collections.synchronizedList(new ArrayList<>());
  static final List<ApplicationId> killed = Collections.synchronizedList(new ArrayList<>());
  static volatile boolean writes = true;
  static YarnConfiguration conf;
  static YarnClient yarn;

  public static void main(String[] args) throws Exception {
    conf = new YarnConfiguration();
    yarn = YarnClient.createYarnClient();
    yarn.init(conf);
    yarn.start();
    Thread submitter = new Thread(YARN::submit);
    submitter.start();
    ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
    System.out.println("takes commands at port " + server.getLocalPort());
    while (true) {
      try (Socket socket = server.accept()) {
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        PrintStream out = new PrintStream(socket.getOutputStream(), true);
        String answer;
        try {
          switch (in.readLine()) {
            case "acknowledged":
              answer = submitted.size() + " " + killed.size();
              break;
            case "states":
              answer = state("rm1") + " " + state("rm2");
              break;
            case "end":
              writes = false;
              submitter.join();
              answer = verify();
              break;
            default:
              throw new IllegalArgumentException();
          }
        } catch (Exception e) {
          e.printStackTrace();
          answer = "error: " + e.toString().replace('\n', ' ');
        }
        out.println(answer);
      }
    }
  }

  static void submit() {
    while (writes) {
      try {
        YarnClientApplication app = yarn.createApplication();
        ApplicationSubmissionContext context = app.getApplicationSubmissionContext();
        context.setApplicationName("an application");
        context.setUnmanagedAM(true);
        context.setQueue("default");
        context.setResource(Resource.newInstance(64, 1));
        context.setAMContainerSpec(ContainerLaunchContext.newInstance(null, null, null, null, null, null));
        ApplicationId id = yarn.submitApplication(context);
        submitted.add(id);
        if (submitted.size() % 2 == 0) {
          yarn.killApplication(id);
          killed.add(id);
        }
      } catch (Exception e) {
        System.out.println("submit: " + e);
      }
    }
  }

  static String state(String id) {
    try {
      YarnConfiguration its = new YarnConfiguration(conf);
      its.set(YarnConfiguration.RM_HA_ID, id);
      HAServiceTarget target = new RMHAServiceTarget(its);
      return target.getProxy(its, 3000).getServiceStatus().getState().toString();
    } catch (Exception e) {
      return "down";
    }
  }

  /** Says what is missing of that which was acknowledged. */
  static String verify() throws Exception {
    for (ApplicationId id : submitted) {
      ApplicationReport report = yarn.getApplicationReport(id);
      if (killed.contains(id) != (report.getYarnApplicationState() == YarnApplicationState.KILLED)) {
        return id + " is " + report.getYarnApplicationState();
      }
    }
    return "all";
  }
}
