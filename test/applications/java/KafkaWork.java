import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Writes numbers to a topic with acks=all and idempotence, reads them with two members of a group, and
 * says at the end whether each acknowledged number was read, and how many were written twice.
 *
 * Arguments: bootstrap servers, topic, group, and a file of properties for all clients. Lines on standard
 * input: "jmx ID PORT..." prints what the brokers measure, "end" ends the work.
 */
public class KafkaWork {
    static final Set<Long> acked = ConcurrentHashMap.newKeySet();
    static final ConcurrentHashMap<Long, String> read = new ConcurrentHashMap<>();
    static final AtomicLong failed = new AtomicLong(), twice = new AtomicLong(), longestMs = new AtomicLong();
    static final AtomicBoolean writing = new AtomicBoolean(true), reading = new AtomicBoolean(true);

    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        try (FileInputStream in = new FileInputStream(args[3])) {
            common.load(in);
        }
        common.put("bootstrap.servers", args[0]);
        Thread writer = new Thread(() -> write(common, args[1]));
        writer.start();
        List<Thread> readers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Thread reader = new Thread(() -> read(common, args[1], args[2]));
            readers.add(reader);
            reader.start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null && !line.equals("end"); ) {
            String[] asked = line.split(" ");
            if (asked[0].equals("jmx")) {
                jmx(asked);
            }
        }
        writing.set(false);
        writer.join();
        for (int i = 0; i < 600 && !read.keySet().containsAll(acked); i++) {
            Thread.sleep(100);
        }
        reading.set(false);
        for (Thread reader : readers) {
            reader.join();
        }
        long missing = acked.stream().filter(n -> !read.containsKey(n)).count();
        System.out.printf("result acked=%d missing=%d twice=%d failed=%d longest=%d%n",
            acked.size(), missing, twice.get(), failed.get(), longestMs.get());
        System.exit(0);
    }

    static void write(Properties common, String topic) {
        Properties p = new Properties();
        p.putAll(common);
        p.put("acks", "all");
        p.put("enable.idempotence", "true");
        p.put("retries", Integer.toString(Integer.MAX_VALUE));
        p.put("max.block.ms", "120000");
        p.put("request.timeout.ms", "60000"); // before 2.1, a record failed when it had waited for so long
        p.put("key.serializer", "org.apache.kafka.common.serialization.LongSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.LongSerializer");
        KafkaProducer<Long, Long> producer = new KafkaProducer<>(p);
        for (long n = 0; writing.get(); n++) {
            long number = n, begun = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, number, number), (where, error) -> {
                if (error != null) {
                    System.out.println("failed " + number + " " + error);
                    failed.incrementAndGet();
                    return;
                }
                longestMs.accumulateAndGet((System.nanoTime() - begun) / 1000000, Math::max);
                acked.add(number);
                if (acked.size() % 100 == 0) {
                    System.out.println(Instant.now() + " acked " + acked.size());
                }
            });
            pause(5);
        }
        producer.close();
    }

    @SuppressWarnings("deprecation") // poll(long) is in all versions
    static void read(Properties common, String topic, String group) {
        Properties p = new Properties();
        p.putAll(common);
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("auto.commit.interval.ms", "500");
        p.put("session.timeout.ms", "10000");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.LongDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.LongDeserializer");
        try (KafkaConsumer<Long, Long> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(Collections.singletonList(topic));
            while (reading.get()) {
                for (ConsumerRecord<Long, Long> r : consumer.poll(200)) {
                    // A group may read a record again; only another place means that it was written twice.
                    String where = r.partition() + "@" + r.offset(), before = read.putIfAbsent(r.value(), where);
                    if (before != null && !before.equals(where)) {
                        twice.incrementAndGet();
                    }
                }
            }
        }
    }

    static void jmx(String[] asked) {
        long controllers = 0, expired = 0, requests = 0;
        StringBuilder latency = new StringBuilder();
        try {
            for (int i = 2; i < asked.length; i++) {
                JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + asked[i] + "/jmxrmi");
                try (JMXConnector c = JMXConnectorFactory.connect(url)) {
                    MBeanServerConnection beans = c.getMBeanServerConnection();
                    controllers += number(beans, "kafka.controller:type=KafkaController,name=ActiveControllerCount", "Value");
                    expired += number(beans, "kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec", "Count");
                    String zk = "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs";
                    requests += number(beans, zk, "Count");
                    latency.append(number(beans, zk, "Mean")).append(' ');
                }
            }
            System.out.printf("jmx %s controllers=%d expired=%d requests=%d latency=%s%n", asked[1], controllers, expired, requests, latency);
        } catch (Exception e) {
            System.out.printf("jmx %s error=%s%n", asked[1], e);
        }
    }

    static long number(MBeanServerConnection beans, String name, String attribute) throws Exception {
        ObjectName bean = new ObjectName(name);
        return beans.isRegistered(bean) ? ((Number) beans.getAttribute(bean, attribute)).longValue() : 0;
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
