// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// Defaults and limits that other packages need.
const (
	// DefaultWindow is in tasks; their memory is about 2 MiB (measured in bench task/blocks).
	DefaultWindow       = 4096
	DefaultRetry        = 10       // ParaStation MPI's
	DefaultHistogramMax = 64 << 20 // bytes
	// DefaultDeadAfter is long enough for a network switch that restarts a port, and for a short
	// pause of a virtual machine. (A guess.)
	DefaultDeadAfter = 8 * time.Second
	// DefaultSingleCopy is in bytes. For smaller messages, two copies by two processors at once are
	// faster than one copy by the kernel, which has to find each page: 52 against 124 µs for 1 MiB,
	// 200 against 500 for 4 MiB on a virtual machine with Linux 6.18. Beyond 4 MiB it is a guess;
	// for larger messages, less work for the processors together should count.
	DefaultSingleCopy = 32 << 20

	// MaxRanks bounds the ranks of a process, which need memory before any of them begins.
	// MaxWorkers and MaxWindow are certainly more than any user means.
	MaxRanks   = 1 << 20
	MaxWorkers = 1 << 12
	MaxWindow  = 1 << 30
	// MaxHistogram and MaxShift ensure that no limit of a bin is beyond 2^60.
	MaxHistogram = 1 << 40
	MaxShift     = 20
	MaxPriority  = 1 << 20
)

// FabricNames are the fabrics between processes, the best first: among fabrics of equal priority,
// the first one that can connect two ranks is used.
var FabricNames = []string{"shm", "mpi", "tcp"}

const (
	started = "`comm.Main`, in a started rank"
	runs    = "`comm.Run`, `comm.Main`"
	opens   = "`task.New`, `task.Open`"
)

var (
	Ranks = number(1, MaxRanks, 1, Variable{
		Name: "WEFT_RANKS", Default: "1", Reader: runs + " (`Config.Ranks`)",
		Meaning: "number of ranks of a run",
		More:    "number of ranks of a run; in a rank that `weft run` has started, of the job"})
	Survive = number(0, 1, 0, Variable{
		Name: "WEFT_SURVIVE", Default: "0", Reader: runs + " (`Config.Survive`)",
		Meaning: "1: the other ranks go on when one dies",
		More:    "1: the other ranks go on when one dies ([guide](guide/failure.md)); `weft run -keep-going` sets it"})
	Spare = number(0, 1, 0, Variable{
		Name: "WEFT_SPARE", Default: "0", Reader: started,
		Meaning: "1: GOMAXPROCS is one more than the processors, so that messages arrive while all of them compute",
		More:    "1: GOMAXPROCS is the number of processors plus one, so that messages arrive while all of them compute ([guide](guide/processes.md#processors)); ignored where GOMAXPROCS is set"})
	Workers = number(1, MaxWorkers, 0, Variable{
		Name: "WEFT_WORKERS", Default: "GOMAXPROCS, less the one that `WEFT_SPARE` adds", Reader: opens + " (`Config.Workers`)",
		Meaning: "number of slots of a task runtime",
		More:    "number of slots of a runtime: how many tasks run at one time"})
	Window = number(2, MaxWindow, DefaultWindow, Variable{
		Name: "WEFT_WINDOW", Default: "4096", Reader: opens + " (`Config.Window`; negative: no throttle)",
		Meaning: "number of live children of a task at which spawning waits",
		More:    "the throttle: a task with this many live children waits before it spawns another one"})
	Debug = number(0, 1, 0, Variable{
		Name: "WEFT_DEBUG", Default: "0; 1 in lint mode", Reader: opens + " (`Config.Debug`)",
		Meaning: "1: look for accesses that are declared wrongly",
		More:    "1: look for accesses that are declared wrongly ([guide](guide/dependencies.md#debug-mode))"})
	Lint = number(0, 1, 0, Variable{
		Name: "WEFT_LINT", Default: "0; 1 in a build for lint mode", Reader: opens + " (`Config.Lint`)",
		Meaning: "1: show the race detector the declared order; weft lint sets it",
		More:    "1: show the race detector the declared order of tasks; needs a build by `weft lint` ([guide](guide/mistakes.md))"})
	Watchdog = duration(time.Millisecond, 24*time.Hour, 0, Variable{
		Name: "WEFT_WATCHDOG", Values: "a time from 1ms to 24h, such as `10s`; 0", Default: "0: none", Reader: opens + " (`Config.Watchdog`; negative: none)",
		Meaning: "report tasks that have waited this long",
		More:    "report tasks that have waited this long for something outside the runtime, and tasks that wait for each other ([guide](guide/mistakes.md))"})
	Trace = text(Variable{
		Name: "WEFT_TRACE", Values: "a file name", Reader: opens + " (`Config.Trace`), " + runs + " (`Config.Trace`), `observe.New` (`Config.File`)",
		Meaning: "file for a recording of tasks and messages; a timeline if the name ends in .json",
		More:    "record tasks and messages: a timeline if the name ends in `.json`, else a recording for `weft trace`; see [below](#notes)"})
	NamDir = text(Variable{
		Name: "WEFT_NAM_DIR", Values: "a directory", Default: "`weft/nam` in the user's cache directory",
		Reader:  "`nam.Open` with an empty `dir`, `nam.DefaultDir`; so also heat and `weft nam`",
		Meaning: "directory of the store of network-attached memory",
		More:    "directory of the store of network-attached memory"})
	Collectives = text(Variable{
		Name: "WEFT_COLLECTIVES", Values: "words such as `allreduce=halves`", Default: "by size and number of ranks", Reader: runs,
		Meaning: "algorithms of collectives between processes",
		More:    "algorithms of collectives between processes, for experiments ([list](../comm/README.md#collectives-by-messages)); see [below](#notes)"})
	Stats = text(Variable{
		Name: "WEFT_STATS", Values: "a file", Reader: runs + " (`Config.Stats` counts, but writes no file)",
		Meaning: "file for the counters of messages, by communicator and peer",
		More:    "file for the [counters of messages](guide/messages.md#counting-messages), written at the end of a run"})
	DeadlockWarnings = number(-1, math.MaxInt, 0, Variable{
		Name: "PSP_DEADLOCK_WARNINGS", Default: "0", Reader: runs + " (`Config.DeadlockWarnings`); `task.New` (-1 only)",
		Meaning: "number of warnings before a run in which all ranks wait for each other is ended; -1: it is never ended",
		More:    "number of warnings, a second apart, before a run in which all ranks [wait for each other](guide/failure.md#when-all-wait) is ended; -1: never end a run for a deadlock, of ranks or of tasks"})
	Histogram = number(0, 1, 0, Variable{
		Name: "PSP_HISTOGRAM", Default: "0", Reader: runs,
		Meaning: "1: print a histogram of messages at the end",
		More:    "1: print a [histogram](guide/messages.md#counting-messages) of the messages sent, at the end of a run"})
	HistogramMin = number(1, MaxHistogram, 64, Variable{
		Name: "PSP_HISTOGRAM_MIN", Default: "64", Reader: "the same",
		Meaning: "limit of the first bin of the histogram, in bytes",
		More:    "limit of the first bin of the histogram, in bytes"})
	HistogramMax = number(1, MaxHistogram, DefaultHistogramMax, Variable{
		Name: "PSP_HISTOGRAM_MAX", Values: "`PSP_HISTOGRAM_MIN` to " + strconv.Itoa(MaxHistogram), Default: "67108864", Reader: "the same",
		Meaning: "the last bin of the histogram is the first whose limit is at least this many bytes",
		More:    "the last bin is the first whose limit is at least this many bytes; larger messages count there too"})
	HistogramShift = number(1, MaxShift, 1, Variable{
		Name: "PSP_HISTOGRAM_SHIFT", Default: "1", Reader: "the same",
		Meaning: "each limit of a bin is the limit before, shifted left by this many bits",
		More:    "each limit is the limit before, shifted left by this many bits"})
	HistogramTypes = list(slices.Concat([]string{"loop", "inproc"}, FabricNames, []string{"gw", "gateway"}), Variable{
		Name: "PSP_HISTOGRAM_CONTYPE", Default: "all", Reader: "the same",
		Meaning: "types of connections that the histogram counts",
		More:    "count only messages over connections of these types; `loop` is the connection of a rank to itself, `gateway` means `gw`"})
	Fabrics = list(FabricNames, Variable{
		Name: "WEFT_FABRIC", Default: "all", Reader: started,
		Meaning: "fabrics between processes, the best first",
		More:    "the [fabrics](guide/processes.md#what-connects-two-ranks) that may connect processes, the best first"})
	SHM = number(0, MaxPriority, 1, Variable{
		Name: "PSP_SHM", Default: "1", Reader: started,
		Meaning: "priority of shared memory; 0: not to be used"})
	MPI = number(0, MaxPriority, 1, Variable{
		Name: "PSP_MPI", Default: "1", Reader: started,
		Meaning: "priority of an MPI library; 0: not to be used"})
	TCP = number(0, MaxPriority, 1, Variable{
		Name: "PSP_TCP", Default: "1", Reader: started,
		Meaning: "priority of TCP; 0: not to be used"})
	UseMPI = number(0, 1, -1, Variable{
		Name: "WEFT_MPI", Default: "1 if an MPI launcher has started the program, else 0", Reader: "`comm.Main`",
		Meaning: "1: take part in an MPI job; 0: do not, even if an MPI launcher has started the program",
		More:    "1: the program takes part in an MPI job; 0: it does not, even under an MPI launcher ([guide](guide/processes.md#under-mpirun-or-srun)); see [below](#notes)"})
	MPISleep = duration(0, time.Second, 16*time.Millisecond, Variable{
		Name: "WEFT_MPI_SLEEP", Values: "a time from 0s to 1s, such as `500us`", Default: "16ms", Reader: "`comm.Main`, over MPI",
		Meaning: "longest sleep between two polls of an MPI library",
		More:    "the longest sleep between two polls of the MPI library by a rank that waits; 0s: the rank yields and does not sleep"})
	SingleCopy = declare(Variable{
		Name: "WEFT_SINGLE_COPY", Values: "bytes, at least 1, or `never`", Default: "33554432", Reader: started,
		Meaning: "smallest message that the kernel copies directly between two processes of a node, in bytes",
		More:    "smallest message that the kernel copies directly between two processes of a node; see [below](#notes)"},
		DefaultSingleCopy, strconv.Itoa, func(text string) (int, bool) {
			if text == "never" {
				return -1, true
			}
			n, err := strconv.Atoi(text)
			return n, err == nil && n >= 1
		})
	Networks = text(Variable{
		Name: "PSP_NETWORK", Values: "interfaces (`eth0`), addresses or prefixes (`10.1.0.0/16`), separated by commas; this machine must have each of them if TCP is needed",
		Default: "all if there are ranks on other machines, else the loopback interface", Reader: started,
		Meaning: "networks that TCP uses: interfaces, addresses or prefixes",
		More:    "networks on which TCP listens, and whose addresses the other ranks try"})
	TLSCert = text(Variable{
		Name: "WEFT_TLS_CERT", Values: "a file in PEM; all three, or none", Default: "none: not encrypted", Reader: started,
		Meaning: "certificate for TLS between ranks",
		More:    "certificate of this machine, for TLS between ranks over TCP; names in certificates do not matter"})
	TLSKey = text(Variable{
		Name: "WEFT_TLS_KEY", Values: "a file in PEM", Default: "none", Reader: started,
		Meaning: "private key of the certificate"})
	TLSCA = text(Variable{
		Name: "WEFT_TLS_CA", Values: "a file in PEM", Default: "none", Reader: started,
		Meaning: "certificates of the authorities that have signed the other machines' certificates"})
	DeadAfter = duration(2*time.Second, time.Hour, DefaultDeadAfter, Variable{
		Name: "WEFT_DEAD_AFTER", Values: "a time from 2s to 1h, such as `20s`", Default: "8s", Reader: started + "; `weft run`",
		Meaning: "longest time until the loss of a machine is noticed",
		More:    "longest time until the loss of a machine, or of the link to it, is noticed; see [below](#notes)"})
	Retry = number(0, 1000, DefaultRetry, Variable{
		Name: "PSP_RETRY", Default: "10", Reader: started,
		Meaning: "number of further attempts to make a connection",
		More:    "number of further attempts to make a connection over TCP, within ten seconds"})
	Bind = text(Variable{
		Name: "WEFT_BIND", Values: "`auto`, `none`, `core`, or sets such as `0-3,4-7`", Default: "`auto`", Reader: "`weft run`, without `-bind`",
		Meaning: "processors that weft run binds ranks to",
		More:    "the [processors](guide/processes.md#processors) that `weft run` binds ranks to"})
	Bound = text(Variable{
		Name: "WEFT_BOUND", Values: "processors, such as `0-3`", Reader: "`comm.Bound`; " + runs + " check it", Set: true,
		Meaning: "processors that the launcher has bound this process to",
		More:    "processors that the launcher has bound this process to; empty: not bound. Where it is set, all of GOMAXPROCS belongs to this rank"})
	Rank = text(Variable{
		Name: "WEFT_RANK", Values: "0 to `WEFT_RANKS` minus 1", Reader: "`comm.Main`", Set: true,
		Meaning: "number of the rank that this process is",
		More:    "number of the rank that this process is"})
	Job = text(Variable{
		Name: "WEFT_JOB", Values: "a directory", Reader: "`comm.Main`", Set: true,
		Meaning: "directory of the job that this process belongs to",
		More:    "directory with the launcher's socket; not set: no launcher has started this process as a rank"})
	Reported = text(Variable{
		Name: "WEFT_REPORTED", Values: "names, separated by commas", Reader: "`task.New`, " + runs, Set: true,
		Meaning: "unknown names that the launcher has reported; ranks do not report them again",
		More:    "unknown names that the launcher has reported; ranks do not report them again"})
	Node = number(0, math.MaxInt32, -1, Variable{
		Name: "PSP_SMP_NODE_ID", Default: "none", Reader: started,
		Meaning: "number of the emulated node; ranks with different numbers behave as on different nodes",
		More:    "for experiments: ranks with different numbers behave as on different nodes; see [below](#notes)"})
)

// Launcher has the variables by which a launcher tells a process its rank and the number of ranks.
type Launcher struct {
	By, Rank, Ranks string
	MPI             bool // an MPI library can connect the processes that it starts
}

// Launchers are the launchers that weft knows; the first is its own. The variables do not tell
// which launcher it was: MPICH's mpirun, those of its descendants, and srun all speak PMI.
var Launchers = []Launcher{
	{"weft run", "WEFT_RANK", "WEFT_RANKS", false},
	{"the mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
	{"a launcher that speaks PMI, as the mpirun of MPICH", "PMI_RANK", "PMI_SIZE", true},
	{"a launcher that speaks PMIx, as srun", "PMIX_RANK", StepTasks, true},
	{"srun", "SLURM_PROCID", StepTasks, false},
}

// StepTasks has the number of processes of a Slurm step.
const StepTasks = "SLURM_STEP_NUM_TASKS"
