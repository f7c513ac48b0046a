package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class CuratorLeaderTest {
    private final List<CuratorFramework> clients = new ArrayList<>();
    private String path;

    @BeforeEach
    void open() throws Exception {
        path = Target.freshPath();
        for (int i = 0; i < 3; i++) {
            clients.add(Target.curator());
        }
    }

    @AfterEach
    void close() {
        clients.forEach(CuratorFramework::close);
    }

    private static LeaderLatch awaitLeader(List<LeaderLatch> latches) throws Exception {
        Target.await("one leader", () -> latches.stream().filter(LeaderLatch::hasLeadership).count() == 1);
        return latches.stream().filter(LeaderLatch::hasLeadership).findFirst().get();
    }

    @Test
    void leaderLatchPassesLeadershipOn() throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (CuratorFramework client : clients) {
            LeaderLatch latch = new LeaderLatch(client, path, "id-" + latches.size());
            latch.start();
            latches.add(latch);
        }
        List<String> leaders = new ArrayList<>();
        while (!latches.isEmpty()) {
            LeaderLatch leader = awaitLeader(latches);
            // A latch that was started may not have its znode yet.
            Target.await("all take part", () -> leader.getParticipants().size() == latches.size());
            assertEquals(leader.getId(), latches.get(0).getLeader().getId());
            leaders.add(leader.getId());
            leader.close();
            latches.remove(leader);
        }
        assertEquals(3, leaders.stream().distinct().count());
    }

    @Test
    void leaderLatchSurvivesTheEndOfAClient() throws Exception {
        LeaderLatch first = new LeaderLatch(clients.get(0), path, "first");
        first.start();
        assertTrue(first.await(20, TimeUnit.SECONDS));
        LeaderLatch second = new LeaderLatch(clients.get(1), path, "second");
        second.start();
        clients.get(0).close();
        assertTrue(second.await(20, TimeUnit.SECONDS));
        second.close();
    }

    @Test
    void leaderSelectorGivesEveryoneATurn() throws Exception {
        BlockingQueue<String> turns = new LinkedBlockingQueue<>();
        List<LeaderSelector> selectors = new ArrayList<>();
        for (CuratorFramework client : clients) {
            String id = "s-" + selectors.size();
            LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws Exception {
                    turns.add(id);
                    Thread.sleep(20);
                }
            });
            selector.setId(id);
            selector.autoRequeue();
            selectors.add(selector);
            selector.start();
        }
        List<String> seen = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            seen.add(turns.poll(20, TimeUnit.SECONDS));
        }
        assertEquals(3, seen.stream().distinct().count(), () -> "turns: " + seen);
        selectors.forEach(LeaderSelector::close);
    }

    @Test
    void anInterruptedLeaderGivesWay() throws Exception {
        CountDownLatch leading = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        LeaderSelector selector = new LeaderSelector(clients.get(0), path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework c) throws Exception {
                leading.countDown();
                try {
                    Thread.currentThread().join();
                } finally {
                    ended.countDown();
                }
            }
        });
        selector.start();
        assertTrue(leading.await(20, TimeUnit.SECONDS));
        selector.interruptLeadership();
        assertTrue(ended.await(20, TimeUnit.SECONDS));
        Target.await("not leader", () -> !selector.hasLeadership());
        assertFalse(selector.hasLeadership());
        selector.close();
    }
}
