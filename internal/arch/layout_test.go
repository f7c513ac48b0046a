package arch

// A kind is what a package may do.
type kind byte

const (
	machine kind = 'M' // pure: values in, values out
	storage kind = 'S' // files, through vfs only; no goroutine, no clock
	shell   kind = 'H' // goroutines, sockets, clocks
)

// rank orders kinds: a package imports no kind above its own.
var rank = map[kind]int{machine: 0, storage: 1, shell: 2}

// A place is the layer and kind of a package. A package imports only packages of lower
// layers.
type place struct {
	layer int
	kind  kind
}

// layout is the map of the root module, by path relative to the module's.
var layout = map[string]place{
	"zk":                                    {0, machine},
	"internal/invariant":                    {0, machine},
	"internal/adler":                        {0, machine},
	"internal/jute":                         {0, machine},
	"internal/sasl":                         {0, machine},
	"internal/quorum":                       {0, machine},
	"internal/pathset":                      {0, machine},
	"internal/compact":                      {0, machine},
	"internal/handover":                     {0, machine},
	"internal/tally":                        {0, machine},
	"internal/redact":                       {0, machine},
	"election/partition/balance":            {0, machine},
	"internal/vfs":                          {0, storage},
	"clock":                                 {0, shell},
	"internal/tracetest":                    {0, shell},
	"internal/healthcheck":                  {0, shell},
	"internal/eventqueue":                   {0, shell},
	"internal/certtest":                     {0, shell},
	"internal/childtest":                    {0, shell},
	"internal/awaittest":                    {0, shell},
	"internal/wire":                         {1, machine},
	"internal/txn":                          {1, machine},
	"internal/session":                      {1, machine},
	"internal/acl":                          {1, machine},
	"internal/auth":                         {2, machine},
	"internal/tree":                         {2, machine},
	"internal/clientsession":                {1, machine},
	"internal/elector":                      {1, machine},
	"internal/ensemble":                     {1, machine},
	"internal/fle":                          {1, machine},
	"internal/zab":                          {1, machine},
	"internal/check":                        {1, machine},
	"algo":                                  {1, machine},
	"algo/raft":                             {2, machine},
	"algo/bully":                            {2, machine},
	"algo/ring":                             {2, machine},
	"algo/lowest":                           {2, machine},
	"algo/algotest":                         {2, machine},
	"algo/registry":                         {3, machine},
	"internal/zab/zabtest":                  {2, machine},
	"internal/txnlog":                       {1, storage},
	"internal/vfs/osfs":                     {1, shell},
	"internal/lobby":                        {1, shell},
	"internal/bubble":                       {1, shell},
	"internal/ports":                        {0, shell},
	"internal/names":                        {0, shell},
	"internal/audit":                        {2, shell},
	"internal/watch":                        {2, machine},
	"internal/peerwire":                     {2, machine},
	"internal/prep":                         {3, machine},
	"internal/snap":                         {2, storage},
	"internal/replica":                      {4, machine},
	"internal/datadir":                      {3, storage},
	"internal/replicadisk":                  {5, storage},
	"internal/peernet":                      {4, shell},
	"client":                                {4, shell},
	"election":                              {4, shell},
	"client/recipes":                        {5, shell},
	"client/cache":                          {5, shell},
	"internal/server":                       {6, shell},
	"internal/claims":                       {5, machine},
	"election/internal/tenures":             {5, shell},
	"election/internal/carried":             {0, shell},
	"election/record":                       {6, shell},
	"election/queue":                        {6, shell},
	"election/backend/zookeeper":            {7, shell},
	"election/backend/file":                 {5, shell},
	"election/backend/peers":                {5, shell},
	"election/backend/internal/watchhub":    {5, shell},
	"election/backend/internal/storeurl":    {5, shell},
	"election/backend/internal/objects":     {5, shell},
	"election/backend/internal/column":      {0, shell},
	"election/backend/internal/polling":     {0, shell},
	"election/backend/internal/networkfs":   {0, shell},
	"election/backend/internal/incarnation": {7, shell},
	"election/backend/internal/storetest":   {7, shell},
	"election/backend/internal/overlap":     {6, shell},
	"election/backend/internal/queuetest":   {7, shell},
	"election/electiontest":                 {6, shell},
	"election/electiontest/lostupdate":      {4, shell},
	"election/supervise":                    {5, shell},
	"election/fence":                        {5, shell},
	"election/probe":                        {5, shell},
	"election/holders":                      {5, shell},
	"election/fence/fencetest":              {6, shell},
	"election/fence/znode":                  {6, shell},
	"election/partition":                    {5, shell},
	"internal/inprocess":                    {7, shell},
	"internal/servertest":                   {7, shell},
	"internal/storm/machines":               {7, shell},
	"internal/storm/records":                {7, shell},
	"internal/sim":                          {6, storage},
	"internal/lab":                          {6, shell},
	"internal/backup":                       {6, shell},
	"internal/admin":                        {7, shell},
	"internal/storm":                        {6, shell},
	"internal/loadgen":                      {5, shell},
	"internal/model":                        {0, shell},
	"internal/model/flemodel":               {2, shell},
	"internal/model/zabmodel":               {2, shell},
	"internal/model/raftmodel":              {3, shell},
	"internal/model/electormodel":           {6, shell},
	"internal/model/models":                 {7, shell},
	"conclavetest":                          {8, shell},
	"internal/arch":                         {8, shell},
}

// forbidden are the packages of the standard library that give access to clocks, networks,
// files, locks or randomness.
var forbidden = map[kind][]string{
	machine: {"time", "os", "net", "sync", "log", "math/rand", "crypto", "syscall", "hash/maphash", "context", "runtime"},
	storage: {"time", "os", "net", "log", "math/rand", "crypto", "syscall", "context", "runtime"},
}

// excused are the imports that a package may have although its kind forbids them.
var excused = map[string]map[string]string{
	"internal/tree": {
		"sync": "the one loop writes, all connections read: the tree is shared by design",
	},
	"internal/compact": {
		"hash/maphash": "the hash of the index needs no stable values; nothing depends on its order",
	},
	"internal/pathset": {
		"hash/maphash": "the hash finds a path, which is compared; nothing depends on its value",
	},
	"internal/watch": {
		"sync":        "connections arm watches while the loop fires them",
		"sync/atomic": "what all watches take is looked at after every batch of requests",
	},
	"internal/auth": {
		"crypto/sha1": "a pure function: the digest of a password", "crypto/md5": "the same", "crypto/sha256": "the same",
		"crypto/sha512": "the same", "crypto/sha3": "the same",
	},
	"internal/sasl": {
		"crypto/md5": "a pure function: the digest of a password", "crypto/subtle": "a pure function: compares in constant time",
		"crypto/rand": "a challenge must be one that nobody foresees",
	},
	"internal/acl": {
		"net/netip": "a pure function: the text of an address",
	},
	"internal/ensemble": {
		"net/netip": "a pure function: the text of an address",
	},
	"internal/claims": {
		"time": "lengths, and the wall clock's time as the shell gives it",
		"github.com/conclave-project/conclave/clock":    "its noun: instant",
		"github.com/conclave-project/conclave/election": "its nouns: claim, grant, token, request, history",
	},
	"internal/session": {
		"crypto/subtle": "a pure function: compares passwords in constant time", "crypto/sha256": "a pure function: ids of sessions",
	},
	"internal/vfs": {
		"math/rand": "the memory disk takes a seed: what a crash keeps must be repeatable",
	},
}

// required are the modules that the root module and conclave's module may use, with the
// reasons. No store's SDK is among them: only conclave-stores has those.
var required = map[string]map[string]string{
	".": {
		"github.com/anishathalye/porcupine": "check compares histories with it; nothing that is served imports check",
		"github.com/golang/snappy":          "snapshots of ZooKeeper may be packed with it",
	},
	"cmd/conclave": {
		"github.com/conclave-project/conclave": "what the command is for",
		"github.com/anishathalye/porcupine":    "by the root module, for sim",
		"github.com/golang/snappy":             "by the root module",
		"github.com/spf13/cobra":               "commands, flags, completion",
		"github.com/spf13/pflag":               "by cobra",
		"github.com/inconshreveable/mousetrap": "by cobra, on Windows",
		"github.com/rogpeppe/go-internal":      "tests are shell sessions",
		"golang.org/x/sys":                     "by go-internal, for tests",
		"golang.org/x/tools":                   "by go-internal, for tests",

		"github.com/jcmturner/gokrb5/v8":             "Kerberos, decision 24",
		"github.com/jcmturner/gofork":                "its ASN.1, decision 24",
		"github.com/jcmturner/aescts/v2":             "by gokrb5",
		"github.com/jcmturner/dnsutils/v2":           "by gokrb5",
		"github.com/jcmturner/goidentity/v6":         "by gokrb5",
		"github.com/jcmturner/rpc/v2":                "by gokrb5",
		"github.com/hashicorp/go-uuid":               "by gokrb5",
		"golang.org/x/net":                           "by gokrb5",
		"github.com/pavlo-v-chernykh/keystore-go/v4": "key stores of Java for TLS, decision 21",
		"software.sslmate.com/src/go-pkcs12":         "key stores in PKCS#12 for TLS, decision 21",
		"github.com/youmark/pkcs8":                   "encrypted keys in PEM for TLS, decision 21",
		"filippo.io/age":                             "encrypted backups, decision 29",
		"filippo.io/hpke":                            "by age",
		"github.com/prometheus/client_golang":        "metrics for Prometheus, decision 26",
		"github.com/prometheus/client_model":         "by client_golang",
		"github.com/prometheus/common":               "by client_golang",
		"github.com/prometheus/procfs":               "by client_golang",
		"github.com/beorn7/perks":                    "by client_golang",
		"github.com/cespare/xxhash/v2":               "by client_golang",
		"github.com/munnerz/goautoneg":               "by client_golang",
		"google.golang.org/protobuf":                 "by client_golang",
		"charm.land/bubbletea/v2":                    "the terminal of top, decision 31",
		"charm.land/lipgloss/v2":                     "its styles, decision 31",
		"github.com/charmbracelet/x/term":            "whether there is a terminal; required by bubbletea, too",
		"github.com/charmbracelet/x/ansi":            "by bubbletea; and tests of what is shown",
		"github.com/charmbracelet/x/termios":         "by bubbletea",
		"github.com/charmbracelet/x/windows":         "by bubbletea, on Windows",
		"github.com/charmbracelet/colorprofile":      "by bubbletea",
		"github.com/charmbracelet/ultraviolet":       "by bubbletea: it draws",
		"github.com/clipperhouse/displaywidth":       "by bubbletea",
		"github.com/clipperhouse/uax29/v2":           "by bubbletea",
		"github.com/lucasb-eyer/go-colorful":         "by bubbletea",
		"github.com/mattn/go-runewidth":              "by bubbletea",
		"github.com/muesli/cancelreader":             "by bubbletea",
		"github.com/rivo/uniseg":                     "by bubbletea",
		"github.com/xo/terminfo":                     "by bubbletea",
		"golang.org/x/sync":                          "by bubbletea",
		"github.com/ergochat/readline":               "the lines of sh, decision 34",
		"golang.org/x/text":                          "by readline: the width of characters",
		"golang.org/x/crypto":                        "OCSP for TLS, decision 21; and by the three before",
	},
}
