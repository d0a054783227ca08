// Package nvfm answers for a binding of NVIDIA's Fabric Manager that the module proxy does not have.
//
// The driver compiles against these types. No node here has a Fabric Manager, so every call fails;
// only the feature gate FabricManagerPartitioning of the driver makes one.
package nvfm

const (
	// SUCCESS is the answer of a call that did what it says.
	SUCCESS Return = 0
	// notInstalled is the answer to every call here.
	notInstalled Return = 1

	maxPartitions = 64
	maxGPUs       = 16
)

// Return is the answer of a call.
type Return int32

func (r Return) String() string {
	if r == SUCCESS {
		return "success"
	}
	return "no Fabric Manager is installed"
}

// FabricPartitionId identifies a partition.
type FabricPartitionId uint32

// GpuInfo is one GPU of a partition.
type GpuInfo struct {
	PhysicalId          uint32
	Uuid                [80]int8
	PciBusId            [32]int8
	NumNvLinksAvailable uint32
	MaxNumNvLinks       uint32
	NvlinkLineRateMBps  uint32
}

// PartitionInfo is one partition.
type PartitionInfo struct {
	PartitionId FabricPartitionId
	IsActive    uint32
	NumGpus     uint32
	GpuInfo     [maxGPUs]GpuInfo
}

// FabricPartitionList is all partitions.
type FabricPartitionList struct {
	NumPartitions uint32
	PartitionInfo [maxPartitions]PartitionInfo
}

// Handle is a connection.
type Handle interface {
	Disconnect() Return
	GetSupportedFabricPartitions() (FabricPartitionList, Return)
	ActivateFabricPartition(id FabricPartitionId) Return
	DeactivateFabricPartition(id FabricPartitionId) Return
}

// Interface is the library.
type Interface interface {
	Init() Return
	Shutdown() Return
	Connect(options ...ConnectOption) (Handle, Return)
}

// LibraryOption says where the library is.
type LibraryOption func()

// ConnectOption says how to reach the Fabric Manager.
type ConnectOption func()

// WithLibraryPath has no effect.
func WithLibraryPath(string) LibraryOption { return func() {} }

// WithUnixSocket has no effect.
func WithUnixSocket(string) ConnectOption { return func() {} }

// WithAddress has no effect.
func WithAddress(string) ConnectOption { return func() {} }

// WithTimeoutMs has no effect.
func WithTimeoutMs[Number ~int | ~uint32](Number) ConnectOption { return func() {} }

// New returns a library that fails.
func New(...LibraryOption) Interface { return absent{} }

type absent struct{}

func (absent) Init() Return                              { return notInstalled }
func (absent) Shutdown() Return                          { return notInstalled }
func (absent) Connect(...ConnectOption) (Handle, Return) { return nil, notInstalled }
