package zoocfg

import (
	"fmt"
	"strings"
)

// Arguments reads Apache's short form of the command line,
// "<port> <dataDir> [tickTime [maxClientCnxns]]".
func Arguments(args []string) ([]Entry, error) {
	names := []string{"clientPort", "dataDir", "tickTime", "maxClientCnxns"}
	if len(args) < 2 || len(args) > len(names) {
		return nil, fmt.Errorf("want <port> <dataDir> [tickTime [maxClientCnxns]], got %d arguments", len(args))
	}
	entries := make([]Entry, len(args))
	for i, arg := range args {
		entries[i] = Entry{Key: names[i], Value: arg}
	}
	return entries, nil
}

// Property reads "name=value" as given to the flag -D. The name is a key of the file, or a
// Java property with the prefix zookeeper.
func Property(text string) (Entry, error) {
	name, value, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return Entry{}, fmt.Errorf("%q: want name=value", text)
	}
	return Entry{Key: name, Value: strings.TrimSpace(value)}, nil
}
