package interop;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy to the server whose connections can be cut, and refused for a while. */
final class CutProxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private volatile boolean open = true;

    CutProxy() throws IOException {
        spawn(this::accept);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Cuts all connections and refuses new ones until heal. */
    void cut() {
        open = false;
        sockets.forEach(CutProxy::quietlyClose);
    }

    void heal() {
        open = true;
    }

    /** Cuts all connections once; the client may come back at once. */
    void blink() {
        sockets.forEach(CutProxy::quietlyClose);
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                if (!open) {
                    client.close();
                    continue;
                }
                Socket server = new Socket(InetAddress.getByName("127.0.0.1"), Target.port());
                sockets.add(client);
                sockets.add(server);
                if (!open) {
                    quietlyClose(client);
                    quietlyClose(server);
                }
                spawn(() -> copy(client, server));
                spawn(() -> copy(server, client));
            } catch (IOException e) {
                // The listener was closed, or the server is away: the client tries again.
            }
        }
    }

    private void copy(Socket from, Socket to) {
        byte[] buffer = new byte[1 << 16];
        try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                out.write(buffer, 0, n);
            }
        } catch (IOException e) {
            // Cut.
        }
        quietlyClose(from);
        quietlyClose(to);
        sockets.remove(from);
        sockets.remove(to);
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    private static void spawn(Runnable body) {
        Thread thread = new Thread(body, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private static void quietlyClose(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // Closed already.
        }
    }
}
