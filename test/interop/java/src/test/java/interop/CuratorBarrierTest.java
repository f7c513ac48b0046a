package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CuratorBarrierTest {
    private CuratorFramework one;
    private CuratorFramework two;
    private String path;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @BeforeEach
    void open() throws Exception {
        one = Target.curator();
        two = Target.curator();
        path = Target.freshPath();
    }

    @AfterEach
    void close() {
        threads.shutdownNow();
        one.close();
        two.close();
    }

    @Test
    void barrierHoldsUntilItIsRemoved() throws Exception {
        DistributedBarrier mine = new DistributedBarrier(one, path);
        DistributedBarrier theirs = new DistributedBarrier(two, path);
        mine.setBarrier();
        assertFalse(theirs.waitOnBarrier(200, TimeUnit.MILLISECONDS));
        Future<Boolean> waiting = threads.submit(() -> theirs.waitOnBarrier(20, TimeUnit.SECONDS));
        mine.removeBarrier();
        assertTrue(waiting.get(20, TimeUnit.SECONDS));
    }

    @Test
    void doubleBarrierGathersAndReleasesAll() throws Exception {
        List<Future<Boolean>> members = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            CuratorFramework client = i % 2 == 0 ? one : two;
            members.add(threads.submit(() -> {
                DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, 4);
                return barrier.enter(20, TimeUnit.SECONDS) && barrier.leave(20, TimeUnit.SECONDS);
            }));
        }
        for (Future<Boolean> member : members) {
            assertTrue(member.get(40, TimeUnit.SECONDS));
        }
    }

    @Test
    void atomicLongCountsUnderContention() throws Exception {
        List<Future<?>> workers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            DistributedAtomicLong counter =
                    new DistributedAtomicLong(i % 2 == 0 ? one : two, path, new RetryNTimes(1000, 2));
            workers.add(threads.submit(() -> {
                for (int round = 0; round < 25; round++) {
                    assertTrue(counter.increment().succeeded());
                }
                return null;
            }));
        }
        for (Future<?> worker : workers) {
            worker.get(40, TimeUnit.SECONDS);
        }
        AtomicValue<Long> value = new DistributedAtomicLong(one, path, new RetryNTimes(1, 1)).get();
        assertEquals(100L, value.postValue());
    }

    @Test
    void sharedCountIsSeenByItsListeners() throws Exception {
        try (SharedCount mine = new SharedCount(one, path, 5); SharedCount theirs = new SharedCount(two, path, 5)) {
            CountDownLatch seen = new CountDownLatch(1);
            mine.start();
            theirs.start();
            theirs.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int count) {
                    if (count == 9) {
                        seen.countDown();
                    }
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            assertEquals(5, theirs.getCount());
            assertTrue(mine.trySetCount(mine.getVersionedValue(), 9));
            assertTrue(seen.await(20, TimeUnit.SECONDS));
            assertEquals(9, theirs.getCount());
        }
    }

    @Test
    void queueKeepsItsOrder() throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(one, path);
        SimpleDistributedQueue out = new SimpleDistributedQueue(two, path);
        for (int i = 0; i < 10; i++) {
            in.offer(("item-" + i).getBytes());
        }
        for (int i = 0; i < 10; i++) {
            assertEquals("item-" + i, new String(out.take()));
        }
    }
}
