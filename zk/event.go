package zk

import "strconv"

// EventType is what happened to a znode.
type EventType int32

// The event types. The first and the last three are made by client libraries,
// never sent by a server.
const (
	EventNone                   EventType = -1
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7
)

// String returns ZooKeeper's name of the type.
func (t EventType) String() string {
	switch t {
	case EventNone:
		return "None"
	case EventNodeCreated:
		return "NodeCreated"
	case EventNodeDeleted:
		return "NodeDeleted"
	case EventNodeDataChanged:
		return "NodeDataChanged"
	case EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	case EventDataWatchRemoved:
		return "DataWatchRemoved"
	case EventChildWatchRemoved:
		return "ChildWatchRemoved"
	case EventPersistentWatchRemoved:
		return "PersistentWatchRemoved"
	}
	return "event " + strconv.Itoa(int(t))
}

// KeeperState is the state of a client's connection, as an event carries it.
type KeeperState int32

// The keeper states. A server sends only StateSyncConnected.
const (
	StateDisconnected      KeeperState = 0
	StateSyncConnected     KeeperState = 3
	StateAuthFailed        KeeperState = 4
	StateConnectedReadOnly KeeperState = 5
	StateSaslAuthenticated KeeperState = 6
	StateClosed            KeeperState = 7
	StateExpired           KeeperState = -112
)

// Event is one notification: what happened, to which path, and by which transaction.
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Zxid  Zxid
}

// WatchMode is how long a watch lives and how far it reaches.
type WatchMode int32

// The modes of addWatch, and the one-shot mode of the read requests.
const (
	WatchPersistent          WatchMode = 0
	WatchPersistentRecursive WatchMode = 1
	WatchStandard            WatchMode = -1
)

// WatcherType is the kind of watches that checkWatches and removeWatches apply to.
type WatcherType int32

// The watcher types.
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// Valid reports whether t is one of the five types.
func (t WatcherType) Valid() bool { return t >= WatcherChildren && t <= WatcherPersistentRecursive }
