package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class AclTest {
    private ZooKeeper owner;
    private ZooKeeper stranger;
    private String base;

    @BeforeEach
    void open() throws Exception {
        owner = Target.connect();
        owner.addAuthInfo("digest", "bob:pw".getBytes());
        stranger = Target.connect();
        base = Target.fresh(owner);
    }

    @AfterEach
    void close() throws Exception {
        owner.close();
        stranger.close();
    }

    private static ACL digest(int perms) throws Exception {
        return new ACL(perms, new Id("digest", DigestAuthenticationProvider.generateDigest("bob:pw")));
    }

    @Test
    void creatorAllBecomesTheDigestOfTheCreator() throws Exception {
        String path = owner.create(base + "/c", "x".getBytes(), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Stat stat = new Stat();
        assertEquals(List.of(digest(Perms.ALL)), owner.getACL(path, stat));
        assertEquals(0, stat.getAversion());
        assertThrows(KeeperException.NoAuthException.class, () -> stranger.getData(path, false, null));
        assertThrows(KeeperException.NoAuthException.class, () -> stranger.setData(path, null, -1));
        assertThrows(KeeperException.NoAuthException.class, () -> stranger.getChildren(path, false));
        stranger.addAuthInfo("digest", "bob:pw".getBytes());
        assertArrayEquals("x".getBytes(), stranger.getData(path, false, null));
    }

    @Test
    void eachPermissionGuardsItsOperation() throws Exception {
        String path = owner.create(base + "/p", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        owner.create(path + "/kid", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        owner.setACL(path, Arrays.asList(digest(Perms.ALL), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), -1);
        stranger.getData(path, false, null);
        stranger.getChildren(path, false);
        assertThrows(KeeperException.NoAuthException.class, () -> stranger.setData(path, null, -1));
        assertThrows(KeeperException.NoAuthException.class, () -> stranger.delete(path + "/kid", -1));
        assertThrows(KeeperException.NoAuthException.class,
                () -> stranger.create(path + "/new", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        assertThrows(KeeperException.NoAuthException.class,
                () -> stranger.setACL(path, Ids.OPEN_ACL_UNSAFE, -1));
        owner.delete(path + "/kid", -1);
    }

    @Test
    void setAclCountsItsOwnVersion() throws Exception {
        Stat before = owner.exists(base, false);
        Stat after = owner.setACL(base, Arrays.asList(digest(Perms.ALL)), 0);
        assertEquals(1, after.getAversion());
        assertEquals(before.getMzxid(), after.getMzxid());
        assertThrows(KeeperException.BadVersionException.class,
                () -> owner.setACL(base, Ids.OPEN_ACL_UNSAFE, 0));
        assertThrows(KeeperException.NoNodeException.class,
                () -> owner.setACL(base + "/none", Ids.OPEN_ACL_UNSAFE, -1));
    }

    @Test
    void aDigestIsHiddenFromThoseWhoMayNotAdminister() throws Exception {
        String path = owner.create(base + "/h", null,
                Arrays.asList(digest(Perms.ALL), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), CreateMode.PERSISTENT);
        assertEquals("bob:x", stranger.getACL(path, null).get(0).getId().getId());
        assertEquals(DigestAuthenticationProvider.generateDigest("bob:pw"),
                owner.getACL(path, null).get(0).getId().getId());
    }

    @Test
    void theAddressOfTheClientCounts() throws Exception {
        ACL here = new ACL(Perms.ALL, new Id("ip", "127.0.0.0/8"));
        ACL elsewhere = new ACL(Perms.ALL, new Id("ip", "10.9.8.7"));
        owner.create(base + "/here", null, Arrays.asList(here), CreateMode.PERSISTENT);
        owner.create(base + "/elsewhere", null, Arrays.asList(elsewhere), CreateMode.PERSISTENT);
        stranger.getData(base + "/here", false, null);
        assertThrows(KeeperException.NoAuthException.class,
                () -> stranger.getData(base + "/elsewhere", false, null));
    }

    @Test
    void nonsenseAclsAreRefused() {
        ACL scheme = new ACL(Perms.ALL, new Id("nosuchscheme", "x"));
        ACL address = new ACL(Perms.ALL, new Id("ip", "not-an-address"));
        ACL digest = new ACL(Perms.ALL, new Id("digest", "nocolon"));
        for (ACL acl : List.of(scheme, address, digest)) {
            assertThrows(KeeperException.InvalidACLException.class,
                    () -> owner.create(base + "/n", null, Arrays.asList(acl), CreateMode.PERSISTENT));
        }
        // "auth" needs an identity other than the address.
        assertThrows(KeeperException.InvalidACLException.class,
                () -> stranger.create(base + "/n", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
    }

    @Test
    void anUnknownSchemeFailsAuthentication() throws Exception {
        ZooKeeper zk = Target.connect();
        zk.addAuthInfo("nosuchscheme", "x".getBytes());
        assertThrows(KeeperException.AuthFailedException.class, () -> {
            for (int i = 0; i < 100; i++) {
                zk.exists(base, false);
                Thread.sleep(50);
            }
        });
        zk.close();
    }

    @Test
    void theSuperUserPassesEverything() throws Exception {
        String path = owner.create(base + "/s", "x".getBytes(),
                Arrays.asList(new ACL(Perms.ADMIN, Ids.ANYONE_ID_UNSAFE)), CreateMode.PERSISTENT);
        assertThrows(KeeperException.NoAuthException.class, () -> owner.getData(path, false, null));
        stranger.addAuthInfo("digest", "super:interop".getBytes());
        assertArrayEquals("x".getBytes(), stranger.getData(path, false, null));
    }

    @Test
    void eventsAreFilteredByReadPermission() throws Exception {
        String path = owner.create(base + "/w", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Events denied = new Events();
        Events allowed = new Events();
        stranger.getData(path, denied, null);
        owner.getData(path, allowed, null);
        owner.setACL(path, Arrays.asList(digest(Perms.ALL)), -1);
        owner.setData(path, null, -1);
        allowed.expect(EventType.NodeDataChanged, path);
        stranger.exists(base, false);
        denied.expectNone();
    }
}
