package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is the version that this client speaks.
const Version = "1.3"

// VersionError says that the allocator speaks another version.
type VersionError struct {
	Theirs string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the allocator speaks protocol %q and the scheduler plugin %q; "+
		"install both from one release", e.Theirs, Version)
}

// checkVersion accepts the same major version, and a minor version that differs by one at most.
func checkVersion(theirs string) error {
	ourMajor, ourMinor, _ := parseVersion(Version)
	major, minor, ok := parseVersion(theirs)
	if !ok || major != ourMajor || minor < ourMinor-1 || minor > ourMinor+1 {
		return &VersionError{Theirs: theirs}
	}
	return nil
}

func parseVersion(text string) (major, minor int, ok bool) {
	first, second, found := strings.Cut(text, ".")
	major, errMajor := strconv.Atoi(first)
	minor, errMinor := strconv.Atoi(second)
	return major, minor, found && errMajor == nil && errMinor == nil
}
