package conclave;

import java.io.File;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * Serves clients in the place of a server within Java: the program that CONCLAVE_BINARY names, with
 * the port, the directories and the limits that a test has chosen, and the properties that it has set.
 * The Java server gets no request, and starts nothing.
 */
public class ProcessFactory extends ServerCnxnFactory {
    private static final long START_SECONDS = 20;
    private static final long STOP_SECONDS = 20;

    private InetSocketAddress address;
    private int perHost;
    private Process process;

    @Override
    public void configure(InetSocketAddress address, int perHost, int backlog, boolean secure) throws IOException {
        configureSaslLogin(); // refuses the same JAAS files as Java's
        this.address = address;
        this.perHost = perHost;
        this.secure = secure;
        if (address.getPort() == 0) {
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                this.address = new InetSocketAddress(free.getLocalPort());
            }
        }
    }

    @Override
    public void startup(ZooKeeperServer server, boolean startServer) throws IOException {
        setZooKeeperServer(server);
        List<String> command = new ArrayList<>(
            List.of(System.getenv("CONCLAVE_BINARY"), "serve", "--config", config(server).toString()));
        for (String name : System.getProperties().stringPropertyNames()) {
            if (isOfServers(name)) {
                command.add("-D");
                command.add(name + "=" + System.getProperty(name));
            }
        }
        File log = new File(System.getProperty("interop.build"), "conclave-" + address.getPort() + ".log");
        Process started = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        Runtime.getRuntime().addShutdownHook(new Thread(started::destroyForcibly));
        Files.writeString(Path.of(System.getProperty("interop.build"), "served"), // see ownResults
            System.getProperty("surefire.real.class.path") + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        synchronized (this) {
            process = started;
        }
        awaitPort(started, log);
    }

    /** Waits until clients can connect, as to a server within Java once it has started. */
    private void awaitPort(Process started, File log) throws IOException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
        while (true) {
            try (Socket open = new Socket(host(), address.getPort())) {
                return;
            } catch (ConnectException e) {
                if (!started.isAlive() || System.nanoTime() > until) {
                    throw new IOException("the server does not serve, see " + log, e);
                }
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("interrupted while the server starts", e);
            }
        }
    }

    private Path config(ZooKeeperServer server) throws IOException {
        File data = server.getTxnLogFactory().getSnapDir().getParentFile();
        File log = server.getTxnLogFactory().getDataLogDir().getParentFile();
        List<String> lines = new ArrayList<>(List.of(
            "tickTime=" + server.getTickTime(),
            "dataDir=" + data.getAbsolutePath(),
            (secure ? "secureClientPort=" : "clientPort=") + address.getPort(),
            (secure ? "secureClientPortAddress=" : "clientPortAddress=") + host(),
            "maxClientCnxns=" + perHost,
            "minSessionTimeout=" + server.getMinSessionTimeout(),
            "maxSessionTimeout=" + server.getMaxSessionTimeout()));
        if (!log.equals(data)) {
            lines.add("dataLogDir=" + log.getAbsolutePath());
        }
        Path file = Files.createTempFile("conclave-", ".cfg");
        file.toFile().deleteOnExit();
        return Files.write(file, lines);
    }

    private String host() {
        return address.getAddress().isAnyLocalAddress() ? "127.0.0.1" : address.getAddress().getHostAddress();
    }

    /** Properties of servers; those of the tests themselves, and authenticators in Java, are not. */
    private static boolean isOfServers(String name) {
        if (name.equals(ZOOKEEPER_SERVER_CNXN_FACTORY) || name.startsWith("zookeeper.junit.")
            || name.startsWith("zookeeper.jmx.") || name.startsWith("zookeeper.authProvider.")
            && System.getProperty(name).startsWith("org.apache.zookeeper.test.")) {
            return false;
        }
        return name.startsWith("zookeeper.") || name.startsWith("znode.") || name.equals("jute.maxbuffer")
            || name.equals("readonlymode.enabled") || name.equals("java.security.auth.login.config");
    }

    /** More than one thread of Curator's ends a server. */
    @Override
    public synchronized void shutdown() {
        Process ended = process;
        process = null;
        if (ended == null) {
            return;
        }
        ended.destroy();
        try {
            if (!ended.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                ended.destroyForcibly().waitFor();
                throw new IllegalStateException("the server did not end within " + STOP_SECONDS + " s");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void join() throws InterruptedException {
        Process running;
        synchronized (this) {
            running = process;
        }
        if (running != null) {
            running.waitFor();
        }
    }

    @Override
    public void start() {
    }

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return perHost;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        perHost = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return Collections.emptyList();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return Collections.emptyList();
    }

    @Override
    public void reconfigure(InetSocketAddress address) {
        throw new UnsupportedOperationException("a server alone keeps its port");
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {
    }

    @Override
    public void resetAllConnectionStats() {
    }
}
