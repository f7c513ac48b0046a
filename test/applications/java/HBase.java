import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * A client of HBase: one thread puts rows, one creates tables and snapshots, and a port takes commands,
 * one a line, with one line as the answer. What has been acknowledged is counted.
 */
public class HBase {
  static final TableName ROWS = TableName.valueOf("rows");
  static final byte[] FAMILY = Bytes.toBytes("f");
  static final AtomicInteger rows = new AtomicInteger();
  static final AtomicInteger tables = new AtomicInteger();
  static volatile boolean writes = true;
  static volatile long longestMs;
  static Connection connection;

  public static void main(String[] args) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    connection = ConnectionFactory.createConnection(conf);
    try (Admin admin = connection.getAdmin()) {
      byte[][] splits = {key(0x2000), key(0x4000), key(0x8000)};
      admin.createTable(TableDescriptorBuilder.newBuilder(ROWS)
          .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build(), splits);
    }
    Thread putter = new Thread(HBase::put);
    Thread creator = new Thread(HBase::create);
    putter.start();
    creator.start();
    ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
    System.out.println("takes commands at port " + server.getLocalPort());
    while (true) {
      try (Socket socket = server.accept()) {
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        PrintStream out = new PrintStream(socket.getOutputStream(), true);
        String line = in.readLine();
        String answer;
        try {
          if ("end".equals(line)) {
            writes = false;
            putter.join();
            creator.join();
          }
          answer = command(line);
        } catch (Exception e) {
          e.printStackTrace();
          answer = "error: " + e.toString().replace('\n', ' ');
        }
        out.println(answer);
      }
    }
  }

  /** Rows are spread over all regions. */
  static byte[] key(int n) {
    return Bytes.toBytes(String.format("%04x", n & 0xffff));
  }

  static byte[] row(int i) {
    return Bytes.toBytes(String.format("%04x-%08d", (i * 40503) & 0xffff, i));
  }

  static void put() {
    for (int i = 0; writes; ) {
      long began = System.nanoTime();
      try (Table table = connection.getTable(ROWS)) {
        table.put(new Put(row(i)).addColumn(FAMILY, null, Bytes.toBytes(i)));
        rows.set(++i);
      } catch (Exception e) {
        System.out.println("put " + i + ": " + e);
      }
      longestMs = Math.max(longestMs, (System.nanoTime() - began) / 1_000_000);
    }
  }

  /** Every table is a procedure of the active master, and znodes of its regions and its state. */
  static void create() {
    for (int i = 0; writes; ) {
      TableName name = TableName.valueOf("t" + i);
      try (Admin admin = connection.getAdmin()) {
        if (!admin.tableExists(name)) {
          admin.createTable(TableDescriptorBuilder.newBuilder(name)
              .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build());
        }
        try (Table table = connection.getTable(name)) {
          table.put(new Put(Bytes.toBytes("only")).addColumn(FAMILY, null, Bytes.toBytes(i)));
        }
        tables.set(++i);
        Thread.sleep(500);
      } catch (Exception e) {
        System.out.println("create " + name + ": " + e);
      }
    }
  }

  static String command(String line) throws Exception {
    try (Admin admin = connection.getAdmin()) {
      switch (line.split(" ")[0]) {
        case "acknowledged":
          return rows.get() + " " + tables.get();
        case "longest":
          long ms = longestMs;
          longestMs = 0;
          return Long.toString(ms);
        case "split": {
          int before = admin.getRegions(ROWS).size();
          List<RegionInfo> all = admin.getRegions(ROWS);
          admin.splitRegionAsync(all.get(all.size() - 1).getRegionName(), key(0xc000)).get();
          return before + " " + admin.getRegions(ROWS).size();
        }
        case "move": {
          List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
          int moved = 0;
          for (RegionInfo region : admin.getRegions(ROWS)) {
            ServerName to = servers.get(moved++ % servers.size());
            admin.move(region.getEncodedNameAsBytes(), to);
          }
          return Integer.toString(moved);
        }
        case "snapshot": {
          String name = line.split(" ")[1];
          admin.snapshot(name, ROWS);
          return Integer.toString(admin.listSnapshots().size());
        }
        case "balance":
          return Boolean.toString(admin.balancerSwitch(line.endsWith("on"), true));
        case "master":
          return admin.getMaster().getPort() + " " + admin.getBackupMasters().size() + " " + admin.getRegionServers().size();
        case "meta":
          return Integer.toString(connection.getRegionLocator(TableName.META_TABLE_NAME)
              .getRegionLocation(Bytes.toBytes("x"), true).getPort());
        case "end":
          return verify();
        default:
          throw new IllegalArgumentException(line);
      }
    }
  }

  /** Says what is missing of that which was acknowledged. */
  static String verify() throws Exception {
    BitSet seen = new BitSet();
    try (Table table = connection.getTable(ROWS); ResultScanner scanner = table.getScanner(new Scan())) {
      for (Result r : scanner) {
        int i = Bytes.toInt(r.value());
        if (!Bytes.equals(r.getRow(), row(i))) {
          return "row " + Bytes.toString(r.getRow()) + " has the value " + i;
        }
        seen.set(i);
      }
    }
    int acknowledged = rows.get();
    if (seen.nextClearBit(0) < acknowledged) {
      return "row " + seen.nextClearBit(0) + " of " + acknowledged + " is missing";
    }
    for (int i = 0; i < tables.get(); i++) {
      try (Table table = connection.getTable(TableName.valueOf("t" + i))) {
        Result r = table.get(new Get(Bytes.toBytes("only")));
        if (r.isEmpty() || Bytes.toInt(r.value()) != i) {
          return "table t" + i + " of " + tables.get() + " has no row";
        }
      }
    }
    return "all";
  }
}
