// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"math"
	"strconv"
	"time"
)

// What counts where neither a program nor the environment says anything, and others need to know.
const (
	// tasks; their memory is about 2 MiB (measured in bench task/blocks)
	DefaultWindow       = 4096
	DefaultRetry        = 10       // ParaStation MPI's
	DefaultHistogramMax = 64 << 20 // bytes
	// DefaultDeadAfter is long enough for a switch that begins anew with a port, and a short pause
	// of a virtual machine. (A guess.)
	DefaultDeadAfter = 8 * time.Second
	// DefaultSingleCopy is in bytes. Below it, two copies by two processors at once are faster than
	// one by the kernel, which has to find each page (52 against 124 µs for 1 MiB, 200 against 500
	// for 4 MiB on a virtual machine with Linux 6.18); a guess beyond 4 MiB, where less work for
	// the processors together is to count.
	DefaultSingleCopy = 32 << 20

	// MaxRanks bounds the ranks of a process, which need memory before any of them has begun;
	// MaxWorkers and MaxWindow are surely more than is meant.
	MaxRanks   = 1 << 20
	MaxWorkers = 1 << 12
	MaxWindow  = 1 << 30
	// MaxHistogram and MaxShift see to it that no limit of a bin is beyond 2^60.
	MaxHistogram = 1 << 40
	MaxShift     = 20
	MaxPriority  = 1 << 20
)

// FabricNames are the fabrics between processes, the best first: of several that are wanted alike,
// the first that connects two ranks does.
var FabricNames = []string{"shm", "mpi", "tcp"}

const (
	started = "`comm.Main`, in a started rank"
	runs    = "`comm.Run`, `comm.Main`"
	opens   = "`task.New`, `task.Open`"
)

var (
	Ranks = number(1, MaxRanks, 1, Variable{
		Name: "WEFT_RANKS", Default: "1", Reader: runs + " (`Config.Ranks`)",
		Meaning: "ranks of a program that does not say how many",
		More:    "ranks of a run; in a rank that `weft run` has started, ranks of the job"})
	Survive = number(0, 1, 0, Variable{
		Name: "WEFT_SURVIVE", Default: "0", Reader: runs + " (`Config.Survive`)",
		Meaning: "1: the other ranks go on when one dies",
		More:    "1: when a rank dies, the others go on; see the [guide](guide/failure.md). `weft run -keep-going` sets it"})
	Spare = number(0, 1, 0, Variable{
		Name: "WEFT_SPARE", Default: "0", Reader: started,
		Meaning: "1: a rank has a processor of Go's to spare for what comes while it computes",
		More:    "1: GOMAXPROCS is one more than the processors, so that messages are taken while all of them compute; see the [guide](guide/processes.md#processors). Not where GOMAXPROCS is set"})
	Workers = number(1, MaxWorkers, 0, Variable{
		Name: "WEFT_WORKERS", Default: "GOMAXPROCS, without the spare one", Reader: opens + " (`Config.Workers`)",
		Meaning: "slots of a task runtime that does not say how many",
		More:    "slots of a runtime: how many tasks run at one time"})
	Window = number(2, MaxWindow, DefaultWindow, Variable{
		Name: "WEFT_WINDOW", Default: "4096", Reader: opens + " (`Config.Window`; a negative value there means no window)",
		Meaning: "live tasks of a runtime before spawning waits",
		More:    "live children of one task before making more waits"})
	Debug = number(0, 1, 0, Variable{
		Name: "WEFT_DEBUG", Default: "0; 1 in lint mode", Reader: opens + " (`Config.Debug`)",
		Meaning: "1: look for accesses that are declared wrongly",
		More:    "look for accesses that are declared wrongly; see the [guide](guide/dependencies.md#debug-mode)"})
	Lint = number(0, 1, 0, Variable{
		Name: "WEFT_LINT", Default: "0; 1 in a build for lint mode", Reader: opens + " (`Config.Lint`)",
		Meaning: "1: show the race detector the declared order; weft lint sets it",
		More:    "show the race detector the order that tasks declare, which needs the build that `weft lint` makes; see [finding mistakes](guide/mistakes.md)"})
	Watchdog = duration(time.Millisecond, 24*time.Hour, 0, Variable{
		Name: "WEFT_WATCHDOG", Values: "a time from 1ms to 24h, such as `10s`; 0", Default: "0: none", Reader: opens + " (`Config.Watchdog`; a negative value there means none)",
		Meaning: "report tasks that wait for so long",
		More:    "report tasks that have waited for so long for something from outside, and tasks that wait for each other; see [finding mistakes](guide/mistakes.md)"})
	Trace = text(Variable{
		Name: "WEFT_TRACE", Values: "a file name", Reader: opens + " (`Config.Trace`), " + runs + " (`Config.Trace`), `observe.New` (`Config.File`)",
		Meaning: "file for a recording of tasks and messages; a timeline if it ends in .json",
		More: "record tasks and messages: a timeline if the name ends in `.json`, else a recording for `weft trace`; a process that is one of several ranks adds `.rankN` to the name. " +
			"`weft run -trace` sets it, and merges what it finds. See the [guide](guide/tracing.md)"})
	NamDir = text(Variable{
		Name: "WEFT_NAM_DIR", Values: "a directory", Default: "`weft/nam` in the user's cache directory",
		Reader:  "`nam.Open`, `nam.DefaultDir` (an empty `dir`), and by way of it heat and `weft nam`",
		Meaning: "directory of the store of network-attached memory",
		More:    "the store of network-attached memory"})
	Collectives = text(Variable{
		Name: "WEFT_COLLECTIVES", Values: "words such as `allreduce=halves`", Default: "by size and number of ranks", Reader: runs,
		Meaning: "algorithms of collectives between processes",
		More: "algorithms of collectives between processes, for trials, the same at all ranks; one that is named is made of messages whatever its size; " +
			"[which there are](../comm/README.md#collectives-by-messages)"})
	Stats = text(Variable{
		Name: "WEFT_STATS", Values: "a file", Reader: runs + " (`Config.Stats` counts without writing a file)",
		Meaning: "file for the counters of messages, by communicator and peer",
		More:    "where the counters of messages go at the end of a run; see [messages](guide/messages.md#counting-messages)"})
	DeadlockWarnings = number(-1, math.MaxInt, 0, Variable{
		Name: "PSP_DEADLOCK_WARNINGS", Default: "0", Reader: runs + " (`Config.DeadlockWarnings`); `task.New` (-1 only)",
		Meaning: "warnings before a run ends in which all ranks wait for each other; -1: never ends",
		More:    "when all ranks [wait for each other](guide/failure.md#when-all-wait): how many warnings, a second apart, before the run ends; -1: never, of ranks or of tasks"})
	Histogram = number(0, 1, 0, Variable{
		Name: "PSP_HISTOGRAM", Default: "0", Reader: runs,
		Meaning: "1: print a histogram of messages at the end",
		More:    "print a [histogram](guide/messages.md#counting-messages) of the messages sent, at the end of a run"})
	HistogramMin = number(1, MaxHistogram, 64, Variable{
		Name: "PSP_HISTOGRAM_MIN", Default: "64", Reader: "the same",
		Meaning: "upper limit of its first bin, in bytes",
		More:    "limit of its first bin in bytes"})
	HistogramMax = number(1, MaxHistogram, DefaultHistogramMax, Variable{
		Name: "PSP_HISTOGRAM_MAX", Values: "`PSP_HISTOGRAM_MIN` to " + strconv.Itoa(MaxHistogram), Default: "67108864", Reader: "the same",
		Meaning: "from where on messages are in its last bin, in bytes",
		More:    "the last bin is the first whose limit is not below this; larger messages count there too"})
	HistogramShift = number(1, MaxShift, 1, Variable{
		Name: "PSP_HISTOGRAM_SHIFT", Default: "1", Reader: "the same",
		Meaning: "bits from the limit of one bin to the next",
		More:    "each limit is the one before, shifted by so many bits"})
	HistogramTypes = list([]string{"loop", "inproc", "shm", "tcp", "mpi", "gw", "gateway"}, Variable{
		Name: "PSP_HISTOGRAM_CONTYPE", Default: "all", Reader: "the same",
		Meaning: "types of connections that it counts",
		More:    "count only messages over connections of these types; `gateway` means `gw`, and `loop` is a rank's to itself"})
	Fabrics = list(FabricNames, Variable{
		Name: "WEFT_FABRIC", Default: "all", Reader: started,
		Meaning: "fabrics between processes, the best first",
		More:    "which fabrics between processes are used, the best first; see [processes](guide/processes.md#what-connects-two-ranks)"})
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
		Name: "WEFT_MPI", Default: "whether an MPI launcher has started the program", Reader: "`comm.Main`",
		Meaning: "1: take part in an MPI job; 0: do not, even if an MPI launcher has started the program",
		More: "whether the program takes part in an MPI job: 0 never, also where `srun` has started several processes, which each run by themselves then; 1 in any case; " +
			"see [processes](guide/processes.md#under-mpirun-or-srun)"})
	MPISleep = duration(0, time.Second, 16*time.Millisecond, Variable{
		Name: "WEFT_MPI_SLEEP", Values: "a time from 0s to 1s, such as `500us`", Default: "16ms", Reader: "`comm.Main`, over MPI",
		Meaning: "longest sleep between two looks at an MPI library",
		More:    "the longest sleep between two looks at an MPI library by a rank that waits; 0s: it only yields"})
	SingleCopy = declare(Variable{
		Name: "WEFT_SINGLE_COPY", Values: "bytes, at least 1, or `never`", Default: "33554432", Reader: started,
		Meaning: "from how many bytes on a message within a node is one copy by the kernel",
		More: "from which size on a message between two processes of a node is one copy by the kernel (`process_vm_readv`), which costs the processors together less; " +
			"smaller ones go through shared memory, which two processors do faster"},
		DefaultSingleCopy, strconv.Itoa, func(text string) (int, bool) {
			if text == "never" {
				return -1, true
			}
			n, err := strconv.Atoi(text)
			return n, err == nil && n >= 1
		})
	Networks = text(Variable{
		Name: "PSP_NETWORK", Values: "interfaces (`eth0`), addresses or prefixes (`10.1.0.0/16`), with commas between; where TCP is needed, all of them must be here",
		Default: "all, if there are ranks on other machines; else the loopback interface", Reader: started,
		Meaning: "networks that TCP uses: interfaces, addresses or prefixes",
		More:    "where TCP listens, and by which addresses other ranks try this one"})
	TLSCert = text(Variable{
		Name: "WEFT_TLS_CERT", Values: "a file in PEM; all three, or none", Default: "none: not encrypted", Reader: started,
		Meaning: "certificate for TLS between ranks",
		More:    "TLS between ranks over TCP: this machine's certificate. Names in certificates do not matter"})
	TLSKey = text(Variable{
		Name: "WEFT_TLS_KEY", Values: "a file in PEM", Default: "none", Reader: started,
		Meaning: "its private key"})
	TLSCA = text(Variable{
		Name: "WEFT_TLS_CA", Values: "a file in PEM", Default: "none", Reader: started,
		Meaning: "certificates of those who have signed the others'"})
	DeadAfter = duration(2*time.Second, time.Hour, DefaultDeadAfter, Variable{
		Name: "WEFT_DEAD_AFTER", Values: "a time from 2s to 1h, such as `20s`", Default: "8s", Reader: started + "; `weft run`",
		Meaning: "how long a machine that has vanished goes unnoticed at most",
		More: "how long a machine, or the link to it, that has vanished goes unnoticed at most: by a rank that has a connection over TCP with it, and by `weft run`. " +
			"The job ends some two seconds later; a process that dies is noticed at once. Longer where machines or links pause"})
	Retry = number(0, 1000, DefaultRetry, Variable{
		Name: "PSP_RETRY", Default: "10", Reader: started,
		Meaning: "how often a connection is tried again",
		More:    "how often a connection over TCP is tried again, within ten seconds"})
	Bind = text(Variable{
		Name: "WEFT_BIND", Values: "`auto`, `none`, `core`, or sets such as `0-3,4-7`", Default: "`auto`", Reader: "`weft run`, without `-bind`",
		Meaning: "what weft run binds ranks to",
		More:    "the [processors](guide/processes.md#processors) that ranks are bound to"})
	Bound = text(Variable{
		Name: "WEFT_BOUND", Values: "processors, such as `0-3`", Reader: "`comm.Bound`; " + runs + " check it", Set: true,
		Meaning: "processors that a launcher has bound this process to",
		More:    "what the launcher has bound this process to; empty if to nothing. Where it is set, GOMAXPROCS is the rank's own, and not to be shared with others"})
	Rank = text(Variable{
		Name: "WEFT_RANK", Values: "0 to `WEFT_RANKS` less one", Reader: "`comm.Main`", Set: true,
		Meaning: "the rank that a launcher has started this process as",
		More:    "the rank that this process is"})
	Job = text(Variable{
		Name: "WEFT_JOB", Values: "a directory", Reader: "`comm.Main`", Set: true,
		Meaning: "directory of the job that a launcher has started this process in",
		More:    "where the launcher's socket is. Without it, the process has not been started as a rank"})
	Reported = text(Variable{
		Name: "WEFT_REPORTED", Values: "names, with commas between", Reader: "`task.New`, " + runs, Set: true,
		Meaning: "names that the launcher has reported as unknown, which its ranks do not report again",
		More:    "unknown names that the launcher has reported; its ranks do not report them again"})
	Node = number(0, math.MaxInt32, -1, Variable{
		Name: "PSP_SMP_NODE_ID", Default: "none", Reader: started,
		Meaning: "number of the emulated node; ranks with different ones behave as on different nodes",
		More: "for trials: ranks with different numbers behave as on different nodes, even on one. " +
			"To be set by part: `weft run -env PSP_SMP_NODE_ID=0 ./a : -env PSP_SMP_NODE_ID=1 ./a`"})
)

// Launcher has the variables by which a launcher tells a process its rank and how many ranks there
// are.
type Launcher struct {
	By, Rank, Ranks string
	MPI             bool // an MPI library can connect what it starts
}

// Launchers are those that weft knows; the first is its own. Which of them has set both is not
// seen: PMI is spoken by MPICH's mpirun, by that of its descendants, and by srun.
var Launchers = []Launcher{
	{"weft run", "WEFT_RANK", "WEFT_RANKS", false},
	{"the mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
	{"a launcher that speaks PMI, as the mpirun of MPICH", "PMI_RANK", "PMI_SIZE", true},
	{"a launcher that speaks PMIx, as srun", "PMIX_RANK", StepTasks, true},
	{"srun", "SLURM_PROCID", StepTasks, false},
}

// StepTasks is how many processes a step of Slurm has.
const StepTasks = "SLURM_STEP_NUM_TASKS"
