//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/test/servers"
)

// An ownTest is a class of tests that a project publishes beside its library.
type ownTest struct {
	class string
	// without are tests of the class that are left out, with a * where several begin alike, and
	// why says what they want of a server in their own process.
	without []string
	why     string
}

const (
	looksInside = "look into the tables of a server within Java"
	ownClock    = "replace the clock of a server within Java"
	afterStart  = "set a property or a limit of a server within Java that runs"
	ownEnsemble = "starts an ensemble within Java"
)

// runOwnTests returns what runs tests of a project by Maven, from test/interop/upstream. Each class has a
// process of its own. Servers are those of the environment variable INTEROP_KIND.
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
		if logs, err := filepath.Glob(filepath.Join(dir, "conclave-*.log")); err != nil || ours != (len(logs) > 0) {
			return nil, fmt.Errorf("%d servers of Conclave were started, by tests on another kind: %t\n%v\n%s", len(logs), !ours, runErr, out)
		}
		return ownResults(filepath.Join(dir, "surefire-reports"), tests, out, runErr)
	}
}

// chosenTests is what Maven's plugin takes for tests.
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

// ownResults reads the reports of all classes. One without a report has not passed: its process
// took too long, or there is no such class.
func ownResults(dir string, tests []ownTest, out string, runErr error) ([]result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "TEST-*.xml"))
	if err != nil {
		return nil, err
	}
	results, err := parseJUnit(files, out, runErr)
	if err != nil {
		return nil, err
	}
	for _, t := range tests {
		if !slices.ContainsFunc(files, func(file string) bool { return strings.HasSuffix(file, "."+t.class+".xml") }) {
			results = append(results, result{name: t.class, detail: fmt.Sprintf("no report in %s", dir)})
		}
	}
	return results, nil
}

// zooKeeperTests are those of ZooKeeper 3.9.5 that talk to a server alone as clients do. Those of
// ensembles, and of the classes of its servers, are not. Nor is SaslAuthRequiredFailNoSASLTest, whose
// server demands SASL and has no JAAS file: it is refused at the start here.
var zooKeeperTests = []ownTest{
	{class: "ACLRootTest"},
	{class: "ACLTest"},
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

// curatorTests are those of Curator 5.9.0 for its framework and its recipes on a server alone. Those of
// ensembles are not, nor what asks no server, nor TestSchema, which needs a library more.
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
	{class: "TestLeaderSelectorEdges"},
	{class: "TestLeaderSelectorParticipants"},
	{class: "TestLeaderSelectorWithExecutor"},
	{class: "TestLockACLs"},
	{class: "TestLockInternals"},
	{class: "TestMultiClient"},
	{class: "TestNamespaceFacade"},
	{class: "TestNeverConnected"},
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
