package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CuratorLockTest {
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
    void mutexExcludes() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<Future<?>> workers = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            CuratorFramework client = i % 2 == 0 ? one : two;
            workers.add(threads.submit(() -> {
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                for (int round = 0; round < 10; round++) {
                    mutex.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    inside.decrementAndGet();
                    mutex.release();
                }
                return null;
            }));
        }
        for (Future<?> worker : workers) {
            worker.get(40, TimeUnit.SECONDS);
        }
        assertEquals(1, most.get());
    }

    @Test
    void mutexIsReentrantAndTimesOut() throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, path);
        InterProcessMutex theirs = new InterProcessMutex(two, path);
        mine.acquire();
        mine.acquire();
        mine.release();
        assertFalse(theirs.acquire(200, TimeUnit.MILLISECONDS));
        mine.release();
        assertTrue(theirs.acquire(20, TimeUnit.SECONDS));
        theirs.release();
    }

    @Test
    void mutexIsFreedByTheEndOfASession() throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, path);
        mine.acquire();
        one.close();
        assertTrue(new InterProcessMutex(two, path).acquire(20, TimeUnit.SECONDS));
    }

    @Test
    void readersShareAndWritersExclude() throws Exception {
        InterProcessReadWriteLock a = new InterProcessReadWriteLock(one, path);
        InterProcessReadWriteLock b = new InterProcessReadWriteLock(two, path);
        a.readLock().acquire();
        assertTrue(b.readLock().acquire(20, TimeUnit.SECONDS));
        assertFalse(b.writeLock().acquire(200, TimeUnit.MILLISECONDS));
        a.readLock().release();
        b.readLock().release();
        assertTrue(b.writeLock().acquire(20, TimeUnit.SECONDS));
        assertFalse(a.readLock().acquire(200, TimeUnit.MILLISECONDS));
        b.writeLock().release();
        assertTrue(a.readLock().acquire(20, TimeUnit.SECONDS));
    }

    @Test
    void semaphoreLeasesAreCounted() throws Exception {
        InterProcessSemaphoreV2 a = new InterProcessSemaphoreV2(one, path, 3);
        InterProcessSemaphoreV2 b = new InterProcessSemaphoreV2(two, path, 3);
        Collection<Lease> two = a.acquire(2);
        Lease third = b.acquire(20, TimeUnit.SECONDS);
        assertNotNull(third);
        assertNull(b.acquire(200, TimeUnit.MILLISECONDS));
        a.returnAll(two);
        assertNotNull(b.acquire(20, TimeUnit.SECONDS));
        assertEquals(2, a.getParticipantNodes().size());
    }

    @Test
    void semaphoreMutexAndMultiLockWork() throws Exception {
        InterProcessSemaphoreMutex single = new InterProcessSemaphoreMutex(one, path + "-s");
        single.acquire();
        assertFalse(new InterProcessSemaphoreMutex(two, path + "-s").acquire(200, TimeUnit.MILLISECONDS));
        single.release();
        InterProcessMutex mutex = new InterProcessMutex(one, path + "-m");
        mutex.acquire();
        InterProcessMultiLock both = new InterProcessMultiLock(two, List.of(path + "-m", path + "-n"));
        assertFalse(both.acquire(200, TimeUnit.MILLISECONDS));
        mutex.release();
        assertTrue(both.acquire(20, TimeUnit.SECONDS));
        both.release();
    }
}
