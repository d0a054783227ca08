package protocol

import "testing"

func TestVersionsOfOneMajorAndNeighbouringMinorsWorkTogether(t *testing.T) {
	for version, accepted := range map[string]bool{
		"1.1": false, "1.2": true, "1.3": true, "1.4": true, "1.5": false, "2.0": false, "0.9": false,
		"": false, "1": false, "one.zero": false, "1.0.0": false,
	} {
		if err := checkVersion(version); (err == nil) != accepted {
			t.Errorf("version %q: got %v, accepted should be %v", version, err, accepted)
		}
	}
}
