/*
 * interop: proves a server against Apache's C client, unmodified.
 *
 * In goes the server's address, ZK_ADDRESS. Out comes one line for each test,
 * "ok NAME" or "not ok NAME: WHY"; the exit code is 0 if all passed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { WAIT_SECONDS = 20, EVENTS_MAX = 64 };

static const char *address;
static char why[512]; /* of the test that runs */

/* A client with the events it got, guarded by the lock. */
struct client {
    zhandle_t *zk;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int connected, expired;
    int count;
    struct {
        int type;
        char path[256];
    } events[EVENTS_MAX];
    int completions, last_rc;
};

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            snprintf(why, sizeof why, "line %d: %s", __LINE__, #condition);                         \
            return 0;                                                                               \
        }                                                                                           \
    } while (0)

#define CHECK_RC(expected, call)                                                                    \
    do {                                                                                            \
        int rc_ = (call);                                                                           \
        if (rc_ != (expected)) {                                                                    \
            snprintf(why, sizeof why, "line %d: %s is %d (%s), expected %d", __LINE__, #call, rc_,  \
                     zerror(rc_), (expected));                                                      \
            return 0;                                                                               \
        }                                                                                           \
    } while (0)

static void watcher(zhandle_t *zk, int type, int state, const char *path, void *context) {
    struct client *c = context;
    (void)zk;
    pthread_mutex_lock(&c->lock);
    if (type == ZOO_SESSION_EVENT) {
        c->connected = state == ZOO_CONNECTED_STATE;
        c->expired |= state == ZOO_EXPIRED_SESSION_STATE;
    } else if (c->count < EVENTS_MAX) {
        c->events[c->count].type = type;
        snprintf(c->events[c->count].path, sizeof c->events[0].path, "%s", path);
        c->count++;
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Waits until *value reaches at_least; the lock must not be held. */
static int wait_for(struct client *c, const int *value, int at_least) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&c->lock);
    int rc = 0;
    while (*value < at_least && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&c->changed, &c->lock, &end);
    int reached = *value >= at_least;
    pthread_mutex_unlock(&c->lock);
    return reached;
}

static int open_session(struct client *c, const clientid_t *id) {
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->zk = zookeeper_init(address, watcher, 8000, id, c, 0);
    CHECK(c->zk != NULL);
    CHECK(wait_for(c, &c->connected, 1));
    return 1;
}

static int is_event(struct client *c, int n, int type, const char *path) {
    if (!wait_for(c, &c->count, n + 1))
        return 0;
    return c->events[n].type == type && strcmp(c->events[n].path, path) == 0;
}

/* Makes a znode of its own for the test and gives its path. */
static int fresh(struct client *c, char *path, int size) {
    int rc = zoo_create(c->zk, "/c", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    CHECK(rc == ZOK || rc == ZNODEEXISTS);
    CHECK_RC(ZOK, zoo_create(c->zk, "/c/t-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, size));
    return 1;
}

static const char *join(char *out, int size, const char *base, const char *name) {
    snprintf(out, size, "%s%s", base, name);
    return out;
}

static int test_create_read_update_delete(void) {
    struct client c;
    char base[64], path[128], made[128], data[64];
    struct Stat stat;
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    join(path, sizeof path, base, "/a");
    CHECK_RC(ZOK, zoo_create2(c.zk, path, "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made, &stat));
    CHECK(strcmp(made, path) == 0 && stat.version == 0 && stat.czxid == stat.mzxid && stat.dataLength == 3);
    CHECK_RC(ZNODEEXISTS, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    CHECK_RC(ZOK, zoo_set2(c.zk, path, "second", 6, 0, &stat));
    CHECK(stat.version == 1 && stat.mzxid > stat.czxid);
    CHECK_RC(ZBADVERSION, zoo_set(c.zk, path, "x", 1, 0));
    int length = sizeof data;
    CHECK_RC(ZOK, zoo_get(c.zk, path, 0, data, &length, &stat));
    CHECK(length == 6 && memcmp(data, "second", 6) == 0);
    struct String_vector children;
    CHECK_RC(ZOK, zoo_get_children2(c.zk, base, 0, &children, &stat));
    CHECK(children.count == 1 && strcmp(children.data[0], "a") == 0 && stat.numChildren == 1);
    deallocate_String_vector(&children);
    CHECK_RC(ZNOTEMPTY, zoo_delete(c.zk, base, -1));
    CHECK_RC(ZOK, zoo_delete(c.zk, path, 1));
    CHECK_RC(ZNONODE, zoo_exists(c.zk, path, 0, &stat));
    CHECK_RC(ZNONODE, zoo_delete(c.zk, path, -1));
    CHECK_RC(ZOK, zookeeper_close(c.zk));
    return 1;
}

static int test_null_data_is_not_empty_data(void) {
    struct client c;
    char base[64], path[128], data[64];
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    join(path, sizeof path, base, "/null");
    CHECK_RC(ZOK, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    int length = sizeof data;
    CHECK_RC(ZOK, zoo_get(c.zk, path, 0, data, &length, NULL));
    CHECK(length == -1);
    length = sizeof data;
    CHECK_RC(ZOK, zoo_get(c.zk, base, 0, data, &length, NULL));
    CHECK(length == 0);
    zookeeper_close(c.zk);
    return 1;
}

static int test_all_create_modes(void) {
    struct client c;
    char base[64], path[128], made[128];
    struct Stat stat;
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    join(path, sizeof path, base, "/e");
    CHECK_RC(ZOK, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    CHECK_RC(ZOK, zoo_exists(c.zk, path, 0, &stat));
    CHECK(stat.ephemeralOwner == zoo_client_id(c.zk)->client_id);
    join(path, sizeof path, base, "/e/kid");
    CHECK_RC(ZNOCHILDRENFOREPHEMERALS, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    join(path, sizeof path, base, "/s-");
    CHECK_RC(ZOK, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, made,
                             sizeof made));
    CHECK(strcmp(made + strlen(made) - 13, "/s-0000000001") == 0);
    join(path, sizeof path, base, "/c");
    CHECK_RC(ZOK, zoo_create(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0));
    join(path, sizeof path, base, "/t");
    CHECK_RC(ZOK, zoo_create_ttl(c.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 200, NULL, 0));
    int rc = ZOK;
    for (int i = 0; i < WAIT_SECONDS * 20 && rc == ZOK; i++) {
        usleep(50000);
        rc = zoo_exists(c.zk, path, 0, &stat);
    }
    CHECK_RC(ZNONODE, rc);
    zookeeper_close(c.zk);
    return 1;
}

static int test_multi_is_all_or_nothing(void) {
    struct client c;
    char base[64], path[128], none[128], made[128];
    struct Stat stat;
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    join(path, sizeof path, base, "/a");
    join(none, sizeof none, base, "/none");
    zoo_check_op_init(&ops[0], base, 0);
    zoo_create_op_init(&ops[1], path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made);
    zoo_set_op_init(&ops[2], path, "y", 1, 0, &stat);
    CHECK_RC(ZOK, zoo_multi(c.zk, 3, ops, results));
    CHECK(strcmp(made, path) == 0 && stat.version == 1);
    zoo_delete_op_init(&ops[0], path, -1);
    zoo_delete_op_init(&ops[1], none, -1);
    zoo_delete_op_init(&ops[2], base, -1);
    CHECK_RC(ZNONODE, zoo_multi(c.zk, 3, ops, results));
    CHECK(results[0].err == ZOK && results[1].err == ZNONODE && results[2].err == ZRUNTIMEINCONSISTENCY);
    CHECK_RC(ZOK, zoo_exists(c.zk, path, 0, &stat));
    zookeeper_close(c.zk);
    return 1;
}

static void void_done(int rc, const void *context) {
    struct client *c = (struct client *)context;
    pthread_mutex_lock(&c->lock);
    c->completions++;
    c->last_rc = rc;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void string_done(int rc, const char *value, const void *context) {
    (void)value;
    void_done(rc, context);
}

static void stat_done(int rc, const struct Stat *stat, const void *context) {
    struct client *c = (struct client *)context;
    /* Replies in order: the n-th set makes version n. */
    void_done(rc != ZOK || stat->version != c->completions + 1 ? ZSYSTEMERROR : ZOK, context);
}

static int test_pipelined_sets_reply_in_order(void) {
    struct client c;
    char base[64];
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    for (int i = 0; i < 500; i++)
        CHECK_RC(ZOK, zoo_aset(c.zk, base, "data", 4, i, stat_done, &c));
    CHECK(wait_for(&c, &c.completions, 500));
    CHECK_RC(ZOK, c.last_rc);
    CHECK_RC(ZOK, zoo_async(c.zk, base, string_done, &c));
    CHECK(wait_for(&c, &c.completions, 501));
    CHECK_RC(ZOK, c.last_rc);
    zookeeper_close(c.zk);
    return 1;
}

static int test_acl_and_digest(void) {
    struct client owner, stranger;
    char base[64], path[128], data[8];
    struct ACL_vector acl;
    struct Stat stat;
    CHECK(open_session(&owner, NULL) && open_session(&stranger, NULL) && fresh(&owner, base, sizeof base));
    CHECK_RC(ZOK, zoo_add_auth(owner.zk, "digest", "frank:pw", 8, void_done, &owner));
    CHECK(wait_for(&owner, &owner.completions, 1));
    CHECK_RC(ZOK, owner.last_rc);
    join(path, sizeof path, base, "/mine");
    CHECK_RC(ZOK, zoo_create(owner.zk, path, "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    CHECK_RC(ZOK, zoo_get_acl(owner.zk, path, &acl, &stat));
    CHECK(acl.count == 1 && strcmp(acl.data[0].id.scheme, "digest") == 0);
    deallocate_ACL_vector(&acl);
    int length = sizeof data;
    CHECK_RC(ZNOAUTH, zoo_get(stranger.zk, path, 0, data, &length, NULL));
    CHECK_RC(ZINVALIDACL, zoo_create(stranger.zk, path, "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    CHECK_RC(ZOK, zoo_set_acl(owner.zk, path, 0, &ZOO_READ_ACL_UNSAFE));
    CHECK_RC(ZOK, zoo_get(stranger.zk, path, 0, data, &length, NULL));
    CHECK_RC(ZNOAUTH, zoo_set(stranger.zk, path, "x", 1, -1));
    zookeeper_close(owner.zk);
    zookeeper_close(stranger.zk);
    return 1;
}

static int test_watches_fire_and_can_be_removed(void) {
    struct client c, other;
    char base[64], path[128], data[8];
    struct Stat stat;
    struct String_vector children;
    int length = sizeof data;
    CHECK(open_session(&c, NULL) && open_session(&other, NULL) && fresh(&c, base, sizeof base));
    join(path, sizeof path, base, "/a");
    CHECK_RC(ZNONODE, zoo_wexists(c.zk, path, watcher, &c, &stat));
    CHECK_RC(ZOK, zoo_create(other.zk, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    CHECK(is_event(&c, 0, ZOO_CREATED_EVENT, path));
    CHECK_RC(ZOK, zoo_wget(c.zk, path, watcher, &c, data, &length, NULL));
    CHECK_RC(ZOK, zoo_set(other.zk, path, "x", 1, -1));
    CHECK(is_event(&c, 1, ZOO_CHANGED_EVENT, path));
    CHECK_RC(ZOK, zoo_wget_children(c.zk, base, watcher, &c, &children));
    deallocate_String_vector(&children);
    CHECK_RC(ZOK, zoo_delete(other.zk, path, -1));
    CHECK(is_event(&c, 2, ZOO_CHILD_EVENT, base));
    CHECK_RC(ZOK, zoo_wexists(c.zk, base, watcher, &c, &stat));
    CHECK_RC(ZOK, zoo_remove_watches(c.zk, base, ZWATCHTYPE_DATA, watcher, &c, 0));
    CHECK_RC(ZOK, zoo_set(other.zk, base, "x", 1, -1));
    CHECK_RC(ZOK, zoo_exists(c.zk, base, 0, &stat));
    CHECK(c.count == 3);
    zookeeper_close(c.zk);
    zookeeper_close(other.zk);
    return 1;
}

/* What a process that is killed leaves behind. */
struct legacy {
    clientid_t id;
    char path[128];
};

/* In a process of its own: opens a session with an ephemeral and dies. */
static int leave_session(int out) {
    struct client c;
    char base[64];
    struct legacy left;
    memset(&left, 0, sizeof left);
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    join(left.path, sizeof left.path, base, "/e");
    CHECK_RC(ZOK, zoo_create(c.zk, left.path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    left.id = *zoo_client_id(c.zk);
    CHECK(write(out, &left, sizeof left) == sizeof left);
    return 1;
}

static int test_session_is_taken_over_by_id_and_password(void) {
    struct client second, direct;
    struct legacy left;
    struct Stat stat;
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    /* Two living handles would take the session from each other for ever. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(!leave_session(ends[1]));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(read(ends[0], &left, sizeof left) == sizeof left);
    close(ends[0]);
    close(ends[1]);
    CHECK(open_session(&direct, NULL) && open_session(&second, &left.id));
    CHECK(zoo_client_id(second.zk)->client_id == left.id.client_id);
    CHECK_RC(ZOK, zoo_exists(direct.zk, left.path, 0, &stat));
    CHECK(stat.ephemeralOwner == left.id.client_id);
    CHECK_RC(ZOK, zookeeper_close(second.zk));
    CHECK_RC(ZNONODE, zoo_exists(direct.zk, left.path, 0, &stat));
    zookeeper_close(direct.zk);
    return 1;
}

static int test_wrong_password_is_expired(void) {
    struct client c, thief;
    CHECK(open_session(&c, NULL));
    clientid_t id = *zoo_client_id(c.zk);
    id.passwd[3] ^= 1;
    memset(&thief, 0, sizeof thief);
    pthread_mutex_init(&thief.lock, NULL);
    pthread_cond_init(&thief.changed, NULL);
    thief.zk = zookeeper_init(address, watcher, 8000, &id, &thief, 0);
    CHECK(thief.zk != NULL && wait_for(&thief, &thief.expired, 1));
    zookeeper_close(thief.zk);
    zookeeper_close(c.zk);
    return 1;
}

static int test_large_data(void) {
    struct client c;
    char base[64];
    int size = 1000000;
    char *in = malloc(size), *out = malloc(size);
    for (int i = 0; i < size; i++)
        in[i] = (char)(i * 7);
    CHECK(open_session(&c, NULL) && fresh(&c, base, sizeof base));
    CHECK_RC(ZOK, zoo_set(c.zk, base, in, size, -1));
    int length = size;
    CHECK_RC(ZOK, zoo_get(c.zk, base, 0, out, &length, NULL));
    CHECK(length == size && memcmp(in, out, size) == 0);
    zookeeper_close(c.zk);
    free(in);
    free(out);
    return 1;
}

static const struct {
    const char *name;
    int (*run)(void);
} tests[] = {
    {"create_read_update_delete", test_create_read_update_delete},
    {"null_data_is_not_empty_data", test_null_data_is_not_empty_data},
    {"all_create_modes", test_all_create_modes},
    {"multi_is_all_or_nothing", test_multi_is_all_or_nothing},
    {"pipelined_sets_reply_in_order", test_pipelined_sets_reply_in_order},
    {"acl_and_digest", test_acl_and_digest},
    {"watches_fire_and_can_be_removed", test_watches_fire_and_can_be_removed},
    {"session_is_taken_over_by_id_and_password", test_session_is_taken_over_by_id_and_password},
    {"wrong_password_is_expired", test_wrong_password_is_expired},
    {"large_data", test_large_data},
};

int main(void) {
    address = getenv("ZK_ADDRESS");
    if (address == NULL) {
        fprintf(stderr, "ZK_ADDRESS names no server\n");
        return 2;
    }
    zoo_set_debug_level(0);
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        why[0] = 0;
        if (tests[i].run()) {
            printf("ok %s\n", tests[i].name);
        } else {
            printf("not ok %s: %s\n", tests[i].name, why);
            failed = 1;
        }
        fflush(stdout);
    }
    return failed;
}
