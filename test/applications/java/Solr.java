import java.util.Arrays;
import java.util.Optional;
import org.apache.solr.client.solrj.embedded.SSLConfig;
import org.apache.solr.client.solrj.impl.CloudSolrClient;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/**
 * A node of Solr, as bin/solr starts it ("node HOME PORT"), or a client that adds documents one after
 * the other and prints the number of each that was acknowledged ("work CONNECT CHROOT COLLECTION").
 */
public class Solr {
  public static void main(String[] args) throws Exception {
    if (args[0].equals("node")) {
      node(args[1], Integer.parseInt(args[2]));
    } else {
      work(args[1], args[2], args[3]);
    }
  }

  static void node(String home, int port) throws Exception {
    JettyConfig config = JettyConfig.builder().setPort(port).setContext("/solr").stopAtShutdown(true).build();
    new JettySolrRunner(home, config).start();
    System.out.println("node started");
    Thread.currentThread().join();
  }

  static void work(String connect, String chroot, String collection) throws Exception {
    CloudSolrClient client = new CloudSolrClient.Builder(Arrays.asList(connect.split(",")), Optional.of(chroot))
        .withDefaultCollection(collection).build();
    client.connect();
    System.out.println("working");
    for (int i = 0; ; i++) {
      SolrInputDocument document = new SolrInputDocument();
      document.addField("id", "d" + i);
      long start = System.nanoTime();
      for (;;) {
        try {
          client.add(document);
          break;
        } catch (Exception e) {
          System.out.println("refused d" + i + ": " + e);
          Thread.sleep(200);
        }
      }
      System.out.println("acknowledged d" + i + " after " + (System.nanoTime() - start) / 1000000 + " ms");
      Thread.sleep(5);
    }
  }
}
