package zoocfg

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A form parses one kind of value and stores it in into, or only checks it if into is nil.

// flag reads true or false in any case.
func flag(into *bool) func(string) error {
	return func(v string) error {
		on := strings.EqualFold(v, "true")
		if !on && !strings.EqualFold(v, "false") {
			return fmt.Errorf("%q is not true or false", v)
		}
		if into != nil {
			*into = on
		}
		return nil
	}
}

// notFlag reads true or false and stores the opposite.
func notFlag(into *bool) func(string) error {
	return func(v string) error {
		var on bool
		err := flag(&on)(v)
		*into = !on
		return err
	}
}

// choice reads one of two values; into is set to whether it is the first.
func choice(into *bool, first, second string) func(string) error {
	return func(v string) error {
		if v != first && v != second {
			return fmt.Errorf("%q is not %s or %s", v, first, second)
		}
		if into != nil {
			*into = v == first
		}
		return nil
	}
}

// text reads any value.
func text(into *string) func(string) error {
	return func(v string) error {
		if into != nil {
			*into = v
		}
		return nil
	}
}

// number reads a whole number between low and high.
func number[N int | int32 | int64](into *N, low, high int64) func(string) error {
	return scaled(into, low, high, 1)
}

// scaled reads a number and multiplies it by unit.
func scaled[N int | int32 | int64](into *N, low, high, unit int64) func(string) error {
	return func(v string) error {
		n, err := decode(v)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("%d is not from %d to %d", n, low, high)
		}
		if into != nil {
			*into = N(n * unit)
		}
		return nil
	}
}

// millis reads a number of milliseconds, at least low.
func millis(into *time.Duration, low int64) func(string) error {
	return scaled((*int64)(into), low, math.MaxInt32, int64(time.Millisecond))
}

// decode reads a number in any form that Java's Integer.decode accepts: decimal, 0x or #
// hexadecimal, 0 octal, with a sign.
func decode(v string) (int64, error) {
	digits, sign := strings.TrimPrefix(v, "+"), ""
	if rest, ok := strings.CutPrefix(v, "-"); ok {
		digits, sign = rest, "-"
	}
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		digits, base = digits[2:], 16
	case strings.HasPrefix(digits, "#"):
		digits, base = digits[1:], 16
	case strings.HasPrefix(digits, "0") && len(digits) > 1:
		digits, base = digits[1:], 8
	}
	if strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, "-") {
		return 0, fmt.Errorf("%q is not a whole number", v)
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", v)
	}
	return n, nil
}

// decimals are the keys whose numbers Apache reads with Integer.parseInt, in
// QuorumPeerConfig and in the provider for Prometheus, not as Java properties: leading
// zeros do not make them octal.
var decimals = map[string]bool{
	"clientPort": true, "secureClientPort": true, "observerMasterPort": true, "clientPortListenBacklog": true,
	"metricsProvider.httpPort": true, "metricsProvider.httpsPort": true, "tickTime": true, "minSessionTimeout": true,
	"maxSessionTimeout": true, "maxClientCnxns": true, "initLimit": true, "syncLimit": true, "electionAlg": true,
	"connectToLearnerMasterLimit": true, "autopurge.snapRetainCount": true, "multiAddress.reachabilityCheckTimeoutMs": true,
}

// withoutZeros returns a decimal number without leading zeros, and any other text
// unchanged.
func withoutZeros(v string) string {
	digits := strings.TrimLeft(v, "+-")
	if strings.Trim(digits, "0123456789") != "" || len(digits) < 2 {
		return v
	}
	sign, rest := v[:len(v)-len(digits)], strings.TrimLeft(digits, "0")
	if rest == "" {
		rest = "0"
	}
	return sign + rest
}

// fraction reads a number from 0 to 1.
func fraction(into *float64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n >= 0 && n <= 1) {
			return fmt.Errorf("%q is not a number from 0 to 1", v)
		}
		*into = n
		return nil
	}
}

// decimal checks a number with or without a fraction.
func decimal(v string) error {
	if n, err := strconv.ParseFloat(v, 64); err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number", v)
	}
	return nil
}

var units = []struct {
	suffix string
	unit   time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

// purgeInterval reads hours, or a number with a unit (ms s m h d). 0 means never.
func purgeInterval(into *time.Duration) func(string) error {
	return func(v string) error {
		digits, unit := v, time.Hour
		for _, u := range units {
			if rest, ok := strings.CutSuffix(v, u.suffix); ok {
				digits, unit = rest, u.unit
				break
			}
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > int64(math.MaxInt64/unit) {
			return fmt.Errorf("%q is not a number of hours, or a number and one of ms s m h d", v)
		}
		*into = time.Duration(n) * unit
		return nil
	}
}

// port reads a TCP port; 0 means none.
func port(into *int) func(string) error { return number(into, 0, 65535) }
