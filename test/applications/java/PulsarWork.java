import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * Writes numbers to topics, reads them by a subscription, and reads the topics again at the end. Each topic must have
 * each acknowledged number once, in order: a number that is sent again has the sequence id that it had.
 *
 * Arguments: the brokers' service URL and their admin URL. Lines on standard input: "create N" creates N namespaces with
 * a topic each, "end" ends the work.
 */
public class PulsarWork {
  static final int TOPICS = 4;
  static final AtomicLong total = new AtomicLong(), longestMs = new AtomicLong();
  static final AtomicBoolean writing = new AtomicBoolean(true), reading = new AtomicBoolean(true);
  static final Map<String, Set<Long>> received = new ConcurrentHashMap<>();
  static final List<String> created = new ArrayList<>();

  public static void main(String[] args) throws Exception {
    PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).keepAliveInterval(5, TimeUnit.SECONDS).operationTimeout(60, TimeUnit.SECONDS)
        .maxBackoffInterval(1, TimeUnit.SECONDS).build();
    PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(args[1]).build();
    Map<String, AtomicLong> acked = new ConcurrentHashMap<>();
    List<Thread> writers = new ArrayList<>();
    for (int i = 0; i < TOPICS; i++) {
      String topic = "persistent://public/default/t" + i;
      acked.put(topic, new AtomicLong());
      received.put(topic, ConcurrentHashMap.newKeySet());
      writers.add(new Thread(() -> write(client, topic, acked.get(topic))));
    }
    Consumer<Long> consumer = client.newConsumer(Schema.INT64).topics(new ArrayList<>(acked.keySet())).subscriptionName("s")
        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    Thread receiver = new Thread(() -> receive(consumer));
    receiver.start();
    for (Thread writer : writers) {
      writer.start();
    }
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null && !line.equals("end"); ) {
      create(admin, Integer.parseInt(line.split(" ")[1]));
    }
    writing.set(false);
    for (Thread writer : writers) {
      writer.join();
    }
    long sent = 0, missing = 0, twice = 0, unread = 0;
    for (String topic : acked.keySet()) {
      long count = acked.get(topic).get(), next = 0;
      sent += count;
      try (Reader<Long> reader = client.newReader(Schema.INT64).topic(topic).startMessageId(MessageId.earliest).create()) {
        while (reader.hasMessageAvailable()) {
          long value = reader.readNext(60, TimeUnit.SECONDS).getValue();
          twice += value < next ? 1 : 0;
          missing += Math.max(0, value - next);
          next = Math.max(next, value + 1);
        }
      }
      missing += Math.max(0, count - next);
      for (int i = 0; i < 600 && received.get(topic).size() < count; i++) {
        Thread.sleep(100);
      }
      unread += Math.max(0, count - received.get(topic).size());
    }
    for (String topic : created) {
      missing += admin.topics().getList(topic.substring(13, topic.lastIndexOf('/'))).contains(topic) ? 0 : 1;
    }
    System.out.printf("result sent=%d missing=%d twice=%d unread=%d created=%d longest=%d%n", sent, missing, twice, unread,
        created.size(), longestMs.get());
    Runtime.getRuntime().halt(0);
  }

  static void write(PulsarClient client, String topic, AtomicLong acked) {
    try (Producer<Long> producer = client.newProducer(Schema.INT64).topic(topic).producerName("work").initialSequenceId(-1)
        .sendTimeout(0, TimeUnit.SECONDS).enableBatching(false).create()) {
      Semaphore window = new Semaphore(8);
      for (long n = 0; writing.get(); n++) {
        window.acquire();
        long began = System.nanoTime();
        producer.newMessage().value(n).sequenceId(n).sendAsync().whenComplete((id, failure) -> {
          longestMs.accumulateAndGet((System.nanoTime() - began) / 1000000, Math::max);
          if (failure != null) {
            System.out.println("failed: " + failure);
          } else {
            acked.incrementAndGet();
            if (total.incrementAndGet() % 100 == 0) {
              System.out.println("acked " + total.get());
            }
          }
          window.release();
        });
        Thread.sleep(20);
      }
      window.acquire(8);
    } catch (Exception e) {
      System.out.println("failed: " + e);
    }
  }

  static void receive(Consumer<Long> consumer) {
    while (reading.get()) {
      try {
        Message<Long> message = consumer.receive(1, TimeUnit.SECONDS);
        if (message != null) {
          received.get(message.getTopicName()).add(message.getValue());
          consumer.acknowledgeAsync(message);
        }
      } catch (Exception e) {
        System.out.println("receive: " + e);
      }
    }
  }

  /** Creates namespaces with a topic each; what may have been created is tried again, and may be there then. */
  static void create(PulsarAdmin admin, int n) throws Exception {
    for (int i = 0; i < n; i++) {
      String namespace = "public/n" + created.size(), topic = "persistent://" + namespace + "/t";
      again(() -> admin.namespaces().createNamespace(namespace));
      again(() -> admin.topics().createNonPartitionedTopic(topic));
      created.add(topic);
      System.out.println("created " + topic);
    }
  }

  interface Step {
    void run() throws PulsarAdminException;
  }

  static void again(Step step) throws Exception {
    for (; ; Thread.sleep(200)) {
      try {
        step.run();
        return;
      } catch (PulsarAdminException.ConflictException e) {
        return;
      } catch (PulsarAdminException e) {
        System.out.println("again: " + e.getMessage());
      }
    }
  }
}
