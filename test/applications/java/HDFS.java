import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.tools.NNHAServiceTarget;

/**
 * A client of HDFS: a thread creates small files, one after the other, and a port takes commands, one a
 * line, with one line as the answer. What has been acknowledged is counted.
 */
public class HDFS {
  static final AtomicInteger files = new AtomicInteger();
  static volatile boolean writes = true;
  static Configuration conf;
  static FileSystem fs;

  public static void main(String[] args) throws Exception {
    conf = new HdfsConfiguration();
    fs = FileSystem.get(conf);
    Thread creator = new Thread(HDFS::create);
    creator.start();
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
              answer = Integer.toString(files.get());
              break;
            case "states":
              answer = state("nn1") + " " + state("nn2");
              break;
            case "end":
              writes = false;
              creator.join();
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

  static Path path(int i) {
    return new Path("/files/" + i % 16 + "/" + i);
  }

  static void create() {
    for (int i = 0; writes; ) {
      try (FSDataOutputStream out = fs.create(path(i), true)) {
        out.write(("file " + i).getBytes(StandardCharsets.UTF_8));
      } catch (Exception e) {
        System.out.println("create " + i + ": " + e);
        continue;
      }
      files.set(++i);
    }
  }

  static String state(String id) {
    try {
      return new NNHAServiceTarget(conf, "ns", id).getProxy(conf, 3000).getServiceStatus().getState().toString();
    } catch (Exception e) {
      return "down";
    }
  }

  /** Says what is missing of that which was acknowledged. */
  static String verify() throws Exception {
    int acknowledged = files.get();
    for (int i = 0; i < acknowledged; i++) {
      try (FSDataInputStream in = fs.open(path(i))) {
        String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        if (!text.equals("file " + i)) {
          return "file " + i + " of " + acknowledged + " has the text " + text;
        }
      }
    }
    return "all";
  }
}
