// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package env knows the names of all environment variables of weft, and says which names in an
// environment mean nothing:
//
//	for _, line := range env.Strange(os.Environ()) { ... }
//	env.Warn(logger, os.Stderr) // what a program does, by task.New and comm.Main: once per job
//
// A new variable needs a row in [Table] and one in docs/environment.md; tests compare them.
// What is legal, and what an unset variable means, the package says that reads it.
package env

// Variable is an environment variable of weft.
type Variable struct {
	Name    string
	Meaning string // a line for "weft info"
}

// Table has all variables, in the order of "weft info".
var Table = []Variable{
	{"WEFT_RANKS", "ranks of a program that does not say how many"},
	{"WEFT_SURVIVE", "1: the other ranks go on when one dies"},
	{"WEFT_SPARE", "1: a rank has a processor of Go's to spare for what comes while it computes"},
	{"WEFT_WORKERS", "slots of a task runtime that does not say how many"},
	{"WEFT_WINDOW", "live tasks of a runtime before spawning waits"},
	{"WEFT_DEBUG", "1: look for accesses that are declared wrongly"},
	{"WEFT_LINT", "1: show the race detector the declared order; weft lint sets it"},
	{"WEFT_WATCHDOG", "report tasks that wait for so long"},
	{"WEFT_TRACE", "file for a recording of tasks and messages; a timeline if it ends in .json"},
	{"WEFT_NAM_DIR", "directory of the store of network-attached memory"},
	{"WEFT_COLLECTIVES", "algorithms of collectives between processes"},
	{"WEFT_STATS", "file for the counters of messages, by communicator and peer"},
	{"PSP_DEADLOCK_WARNINGS", "warnings before a run ends in which all ranks wait for each other; -1: never ends"},
	{"PSP_HISTOGRAM", "1: print a histogram of messages at the end"},
	{"PSP_HISTOGRAM_MIN", "upper limit of its first bin, in bytes"},
	{"PSP_HISTOGRAM_MAX", "from where on messages are in its last bin, in bytes"},
	{"PSP_HISTOGRAM_SHIFT", "bits from the limit of one bin to the next"},
	{"PSP_HISTOGRAM_CONTYPE", "types of connections that it counts"},
	{"WEFT_FABRIC", "fabrics between processes, the best first"},
	{"PSP_SHM", "priority of shared memory; 0: not to be used"},
	{"PSP_MPI", "priority of an MPI library"},
	{"PSP_TCP", "priority of TCP"},
	{"WEFT_MPI", "1: take part in an MPI job; 0: do not, even if an MPI launcher has started the program"},
	{"WEFT_MPI_SLEEP", "longest sleep between two looks at an MPI library"},
	{"WEFT_SINGLE_COPY", "from how many bytes on a message within a node is one copy by the kernel"},
	{"PSP_NETWORK", "networks that TCP uses: interfaces, addresses or prefixes"},
	{"WEFT_TLS_CERT", "certificate for TLS between ranks"},
	{"WEFT_TLS_KEY", "its private key"},
	{"WEFT_TLS_CA", "certificates of those who have signed the others'"},
	{"WEFT_DEAD_AFTER", "how long a machine that has vanished goes unnoticed at most"},
	{"PSP_RETRY", "how often a connection is tried again"},
	{"WEFT_BIND", "what weft run binds ranks to"},
	{"WEFT_BOUND", "processors that a launcher has bound this process to"},
	{"WEFT_RANK", "the rank that a launcher has started this process as"},
	{"WEFT_JOB", "directory of the job that a launcher has started this process in"},
	{Reported, "names that the launcher has reported as unknown, which its ranks do not report again"},
	{"PSP_SMP_NODE_ID", "number of the emulated node; ranks with different ones behave as on different nodes"},
}

// Reported is set by weft run for its ranks: names, with commas between, that it has reported.
const Reported = "WEFT_REPORTED"

// testPrefix begins the names by which the tests of weft talk to processes that they start.
const testPrefix = "WEFT_TEST_"

// paraStation are the variables of ParaStation MPI (psmpi and pscom) that weft does not have,
// without their "PSP_". A name also stands for all that begin with it and an underscore. Old
// names are here as well: job scripts outlive versions.
var paraStation = []string{
	"ACCUMULATE_ORDERING", "COLLECTIVES", "COLLOPS", "COLLOPS_STATS", "COMPRESSOR_PLUGINS", "CUDA",
	"DAPL", "DEBUG", "DIRECT_CONNECT", "ELAN", "EXTOLL", "FINALIZE", "GATEWAY", "GM", "GUARD", "GW",
	"HARD_ABORT", "HCOLL", "INFO", "IPROBE_COUNT", "KEEP_CONNECTIONS", "LAZY_DISCONNECT", "LIB",
	"LIGHTWEIGHT_INIT_BARRIER", "MALLOC", "MSA", "MVAPI", "MXM", "NBC_PROGRESS_DELAY", "OFED",
	"ONDEMAND", "OPENIB", "P4S", "P4SOCK", "PLUGINDIR", "PMI_VERSION", "PORTALS", "PORTALS4",
	"PRECON", "PSM", "READAHEAD", "RENDEZVOUS", "RMA_EXPLICIT_WAIT", "SCHED_YIELD", "SHAREDMEM",
	"SHM", "SHUTDOWN_TIMEOUT", "SIGQUIT", "SIGSEGV", "SIGSUSPEND", "SMP_AWARENESS", "SMP_AWARE_COLLOPS", "SO_RCVBUF", "SO_SNDBUF",
	"TCP", "UCC", "UCP", "UNEXPECTED_RECEIVES", "VELO",
}

// instead says what weft has in place of one of them, also without its "PSP_".
var instead = map[string]string{
	"SHAREDMEM":        "PSP_SHM",
	"RENDEZVOUS":       "Config.EagerLimit of package comm",
	"COLLOPS_STATS":    "WEFT_STATS",
	"MSA_NODE_ID":      "PSP_SMP_NODE_ID",
	"SHUTDOWN_TIMEOUT": "WEFT_DEAD_AFTER",
}
