import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.ListLedgersResult;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Writes ledgers, each entry to two bookies, and reads all of them at the end. Every fourth ledger is not
 * closed by its writer, but by the recovery of who opens it; one ledger stays open all the time.
 *
 * Argument: the metadata service's URI. Lines on standard input: "uses ID BOOKIE" prints how many closed
 * ledgers have a part on the bookie, "end" ends the work.
 */
public class BookKeeperWork {
    static final byte[] PASSWORD = "secret".getBytes(StandardCharsets.UTF_8);
    static final Map<Long, Long> acked = new ConcurrentSkipListMap<>(); // the last acknowledged entry of each ledger
    static final AtomicLong entries = new AtomicLong(), failed = new AtomicLong(), longestMs = new AtomicLong();
    static final AtomicBoolean writing = new AtomicBoolean(true);

    public static void main(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setZkTimeout(10000);
        conf.setAddEntryTimeout(5);
        conf.setReadEntryTimeout(5);
        try (BookKeeper bk = BookKeeper.newBuilder(conf).build()) {
            Thread writer = new Thread(() -> write(bk)), holder = new Thread(() -> hold(bk));
            writer.start();
            holder.start();
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = in.readLine()) != null && !line.equals("end"); ) {
                String[] asked = line.split(" ");
                System.out.println("uses " + asked[1] + " " + uses(bk, asked[2]));
            }
            writing.set(false);
            writer.join();
            holder.join();
            long missing = 0;
            for (Map.Entry<Long, Long> ledger : acked.entrySet()) {
                missing += missing(bk, ledger.getKey(), ledger.getValue());
            }
            System.out.printf("result ledgers=%d entries=%d missing=%d failed=%d longest=%d%n",
                acked.size(), entries.get(), missing, failed.get(), longestMs.get());
        }
        System.exit(0);
    }

    static WriteHandle create(BookKeeper bk) throws Exception {
        return bk.newCreateLedgerOp().withEnsembleSize(2).withWriteQuorumSize(2).withAckQuorumSize(2)
            .withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get();
    }

    static void append(WriteHandle w) throws Exception {
        long begun = System.nanoTime();
        long entry = w.append(ByteBuffer.allocate(100).putLong(0, w.getId()).putLong(8, w.getLastAddConfirmed() + 1));
        longestMs.accumulateAndGet((System.nanoTime() - begun) / 1000000, Math::max);
        acked.put(w.getId(), entry);
        if (entries.incrementAndGet() % 100 == 0) {
            System.out.println(Instant.now() + " acked " + entries.get());
        }
    }

    static void write(BookKeeper bk) {
        for (long n = 0; writing.get(); n++) {
            try {
                WriteHandle w = create(bk);
                for (int i = 0; i < 20; i++) {
                    append(w);
                    Thread.sleep(2);
                }
                if (n % 4 != 0) {
                    w.close();
                }
            } catch (Exception e) {
                failure("write", e);
            }
        }
    }

    static void hold(BookKeeper bk) {
        while (writing.get()) {
            try (WriteHandle w = create(bk)) {
                while (writing.get()) {
                    append(w);
                    Thread.sleep(20);
                }
            } catch (Exception e) {
                failure("hold", e);
            }
        }
    }

    static void failure(String what, Exception e) {
        failed.incrementAndGet();
        System.out.println(Instant.now() + " failed to " + what + ": " + e);
        try {
            Thread.sleep(200);
        } catch (InterruptedException i) {
            throw new IllegalStateException(i);
        }
    }

    static long missing(BookKeeper bk, long ledger, long last) {
        for (int attempt = 0; ; attempt++) {
            try (ReadHandle r = bk.newOpenLedgerOp().withLedgerId(ledger).withRecovery(true)
                    .withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get()) {
                if (r.getLastAddConfirmed() < last) {
                    return last - r.getLastAddConfirmed();
                }
                long expected = 0;
                try (LedgerEntries all = r.read(0, last)) {
                    for (LedgerEntry e : all) {
                        ByteBuffer b = e.getEntryNioBuffer();
                        if (b.getLong(0) != ledger || b.getLong(8) != expected++) {
                            return 1;
                        }
                    }
                }
                return last + 1 - expected;
            } catch (Exception e) {
                System.out.println("ledger " + ledger + ": " + e);
                if (attempt == 5) {
                    return last + 1;
                }
            }
        }
    }

    static long uses(BookKeeper bk, String bookie) throws Exception {
        long n = 0;
        try (ListLedgersResult all = bk.newListLedgersOp().execute().get()) {
            for (long ledger : all.toIterable()) {
                LedgerMetadata m = bk.getLedgerMetadata(ledger).get();
                if (m.isClosed() && m.getAllEnsembles().values().stream().anyMatch(e -> e.toString().contains(bookie))) {
                    n++;
                }
            }
        }
        return n;
    }
}
