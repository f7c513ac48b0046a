//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/test/servers"
)

// An ownTest is a test class that a project publishes beside its library.
type ownTest struct {
	class string
	// without are tests of the class that are left out, with a * if several have a common
	// prefix; why says what they need from a server in their own process.
	without []string
	why     string
}

const (
	looksInside = "look into the tables of a server within Java"
	ownClock    = "replace the clock of a server within Java"
	afterStart  = "set a property or a limit of a server within Java that runs"
	ownEnsemble = "starts an ensemble within Java"
)

// runOwnTests returns a function that runs tests of a project with Maven, from
// test/interop/upstream. Each class has its own process. The environment variable
// INTEROP_KIND names the servers.
func runOwnTests(project string, tests []ownTest) func(context.Context, *environment) ([]result, error) {
	return func(ctx context.Context, e *environment) ([]result, error) {
		dir, err := e.scratch("upstream-" + project)
		if err != nil {
			return nil, err
		}
		binary, err := servers.Binary(ctx)
		if err != nil {
			return nil, err
		}
		e.variables = append(e.variables, servers.BinaryVariable+"="+binary)
		args := []string{"mvn", "-B", "-ntp", "-Dinterop.build=" + dir, "-Dtest=" + chosenTests(tests), "test"}
		ours := slices.Contains(e.variables, "INTEROP_KIND="+servers.Conclave().Name())
		if !ours {
			args = append(args, "-Dinterop.factory=org.apache.zookeeper.server.NIOServerCnxnFactory")
		}
		out, runErr := e.command(ctx, "test/interop/upstream", args...)
		served, err := os.ReadFile(filepath.Join(dir, "served"))
		if ours != (err == nil) {
			return nil, fmt.Errorf("servers of Conclave were started: %t, by tests on another kind: %t\n%v\n%s", err == nil, !ours, runErr, out)
		}
		return ownResults(filepath.Join(dir, "surefire-reports"), tests, strings.Fields(string(served)), out, runErr)
	}
}

// chosenTests returns the selection of tests in the form that Maven's plugin takes.
func chosenTests(tests []ownTest) string {
	var chosen []string
	for _, t := range tests {
		chosen = append(chosen, t.class)
		for _, name := range t.without {
			chosen = append(chosen, "!"+t.class+"#"+name)
		}
	}
	return strings.Join(chosen, ",")
}

// ownResults reads the reports of all classes. A class without a report has failed: its
// process took too long, or the class does not exist. So has a class whose process is not
// among those that started a server of Conclave, unless none did: it has tested another one.
func ownResults(dir string, tests []ownTest, served []string, out string, runErr error) ([]result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "TEST-*.xml"))
	if err != nil {
		return nil, err
	}
	results, err := parseJUnit(files, out, runErr)
	if err != nil {
		return nil, err
	}
	for _, t := range tests {
		i := slices.IndexFunc(files, func(file string) bool { return strings.HasSuffix(file, "."+t.class+".xml") })
		if i < 0 {
			results = append(results, result{name: t.class, detail: fmt.Sprintf("no report in %s", dir)})
			continue
		}
		report, err := os.ReadFile(files[i])
		if err != nil {
			return nil, err
		}
		names := func(process string) bool { return strings.Contains(string(report), process) }
		if len(served) > 0 && !slices.ContainsFunc(served, names) {
			results = append(results, result{name: t.class, detail: "no server of Conclave was started"})
		}
	}
	return results, nil
}

// zooKeeperTests are the tests of ZooKeeper 3.9.5 that use a standalone server only as
// clients do. Tests of ensembles and of the server's classes are left out, and so are ACLTest,
// which replaces the server by one within Java, and SaslAuthRequiredFailNoSASLTest, whose
// server demands SASL and has no JAAS file: here, this is refused at the start.
var zooKeeperTests = []ownTest{
	{class: "ACLRootTest"},
	{class: "AsyncOpsTest"},
	{class: "AuthTest"},
	{class: "ChrootTest"},
	{class: "ClientPortBindTest"},
	{class: "ClientRetryTest"},
	{class: "ClientTest", without: []string{"testPathValidation"}, why: "puts a fault into a server within Java"},
	{class: "CreateContainerTest", without: []string{"testMaxNeverUsedInterval", "testFalseEmpty", "testSimpleDeletion*",
		"testMultiWithContainer*", "testCascadingDeletion"}, why: ownClock},
	{class: "CreateTest"},
	{class: "CreateTTLTest", without: []string{"testModifying", "testMulti", "testCreate", "testCreateAsync", "testCreateSequential"},
		why: ownClock},
	{class: "DigestAuthDisabledTest"},
	{class: "DisconnectedWatcherTest"},
	{class: "EnforceQuotaTest"},
	{class: "EnsembleAuthTest"},
	{class: "FourLetterWordsTest"},
	{class: "FourLetterWordsWhiteListTest"},
	{class: "GetAllChildrenNumberTest"},
	{class: "GetChildren2Test"},
	{class: "GetEphemeralsTest"},
	{class: "MaxCnxnsTest"},
	{class: "MultiAsyncTransactionTest"},
	{class: "MultiOperationTest"},
	{class: "NullDataTest"},
	{class: "PersistentRecursiveWatcherTest"},
	{class: "PersistentWatcherACLTest"},
	{class: "PersistentWatcherTest"},
	{class: "RecoveryTest"},
	{class: "RemoveWatchesCmdTest"},
	{class: "RemoveWatchesTest", without: []string{"testRemoveAll*Watches*", "testRemovePersistentWatchesOnAPathPartially"},
		why: looksInside},
	{class: "SaslAuthDesignatedClientTest", without: []string{"testReadAccessUser"}, why: afterStart},
	{class: "SaslAuthFailDesignatedClientTest"},
	{class: "SaslAuthFailTest"},
	{class: "SaslAuthMissingClientConfigTest"},
	{class: "SaslAuthRequiredFailWrongSASLTest"},
	{class: "SaslAuthRequiredMultiClientTest"},
	{class: "SaslAuthRequiredTest"},
	{class: "SaslAuthTest"},
	{class: "SaslSuperUserTest", without: []string{"testOtherSuperIsSuper"}, why: afterStart},
	{class: "ServerCnxnTest"},
	{class: "SessionInvalidationTest"},
	{class: "SessionTest", without: []string{"testMinMaxSessionTimeout", "testMaximumCnxnPerIP"}, why: afterStart},
	{class: "SessionTimeoutTest"},
	{class: "StatTest"},
	{class: "SyncCallTest"},
	{class: "WatcherFuncTest"},
	{class: "WatcherTest", without: []string{"testWatcherCount"}, why: looksInside},
	{class: "ZooKeeperQuotaTest", without: []string{"testSetQuotaWhen*", "testDelete*Quota"}, why: "look at the metrics of a server within Java"},
	{class: "ZooKeeperTest"},
}

// curatorTests are Curator 5.9.0's tests of its framework and its recipes with a standalone
// server. Tests of ensembles are left out, and so are tests without a server,
// TestLeaderSelectorEdges, which replaces the server by one within Java, and TestSchema, which
// needs another library.
var curatorTests = []ownTest{
	{class: "TestBackgroundStates"},
	{class: "TestBlockUntilConnected"},
	{class: "TestBoundedDistributedQueue"},
	{class: "TestCachedAtomicCounter"},
	{class: "TestCompression"},
	{class: "TestCompressionInTransactionNew"},
	{class: "TestCompressionInTransactionOld"},
	{class: "TestCreate"},
	{class: "TestCreateReturningStat"},
	{class: "TestCuratorCache"},
	{class: "TestCuratorCacheBridge"},
	{class: "TestCuratorCacheEdges", without: []string{"testServerLoss"}, why: ownEnsemble},
	{class: "TestCuratorCacheEventOrdering"},
	{class: "TestCuratorCacheWrappers"},
	{class: "TestDelete"},
	{class: "TestDistributedAtomicLong"},
	{class: "TestDistributedBarrier"},
	{class: "TestDistributedDelayQueue"},
	{class: "TestDistributedDoubleBarrier"},
	{class: "TestDistributedIdQueue"},
	{class: "TestDistributedPriorityQueue"},
	{class: "TestDistributedQueue"},
	{class: "TestEnabledSessionExpiredState"},
	{class: "TestEnsembleProvider"},
	{class: "TestEnsureContainers"},
	{class: "TestExistsBuilder"},
	{class: "TestFailedDeleteManager"},
	{class: "TestFramework"},
	{class: "TestFrameworkBackground"},
	{class: "TestFrameworkEdges", without: []string{"testProtectionWithKilledSession"}, why: ownEnsemble},
	{class: "TestGroupMember"},
	{class: "TestInterProcessMultiMutex"},
	{class: "TestInterProcessMutex"},
	{class: "TestInterProcessReadWriteLock"},
	{class: "TestInterProcessSemaphore"},
	{class: "TestInterProcessSemaphoreMutex", without: []string{"testReentrant*"}, why: "are disabled by Curator"},
	{class: "TestLeaderAcls"},
	{class: "TestLeaderLatch"},
	{class: "TestLeaderSelector"},
	{class: "TestLeaderSelectorParticipants"},
	{class: "TestLeaderSelectorWithExecutor"},
	{class: "TestLockACLs"},
	{class: "TestLockInternals"},
	{class: "TestMultiClient"},
	{class: "TestNamespaceFacade"},
	{class: "TestNodeCache"},
	{class: "TestPathChildrenCache"},
	{class: "TestPathChildrenCacheEventOrdering"},
	{class: "TestPersistentEphemeralNode"},
	{class: "TestPersistentEphemeralNodeListener"},
	{class: "TestPersistentNode"},
	{class: "TestPersistentTtlNode"},
	{class: "TestPersistentWatcher"},
	{class: "TestQueueSharder"},
	{class: "TestResetConnectionWithBackgroundFailure"},
	{class: "TestSetData"},
	{class: "TestSharedCount"},
	{class: "TestSimpleDistributedQueue"},
	{class: "TestTempFramework"},
	{class: "TestThreadLocalRetryLoop"},
	{class: "TestTransactionsNew"},
	{class: "TestTransactionsOld"},
	{class: "TestTreeCache"},
	{class: "TestTreeCacheEventOrdering"},
	{class: "TestTreeCacheIteratorAndSize"},
	{class: "TestTreeCacheRandomTree"},
	{class: "TestTtlNodes"},
	{class: "TestWatcherIdentity"},
	{class: "TestWatcherRemovalManager"},
	{class: "TestWatchesBuilder"},
	{class: "TestWrappedNodeCache"},
}
