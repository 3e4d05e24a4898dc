// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/names"
)

// Type says how a field is to be read.
type Type uint8

// The types of fields.
const (
	Task    Type = 1 + iota // number of a task, unique in its process; 0 is none
	Request                 // number of a request, unique in its process; 0 is none
	Spec                    // number of an origin of tasks: Names has its label and its line
	Name                    // number of a text in Names
	Slot                    // number of a slot in its runtime
	Rank                    // rank; -1 is any or none
	Tag                     // tag; -1 is any
	Comm                    // number of a communicator in its run
	Window                  // number of a window in its run: the same at all its ranks
	Address                 // of memory
	Bytes                   // a size
	Number                  // a count or an ordinal number
	Signed                  // a number with a sign
	Flags                   // a sum of the values named in Values
	Enum                    // one of the values named in Values
)

func (t Type) signed() bool { return t == Rank || t == Tag || t == Signed }

var typeNames = [...]string{"", "task", "request", "spec", "name", "slot", "rank", "tag", "communicator", "window", "address", "bytes", "number", "signed number", "flags", "one of"}

// String returns the name of the type, as in docs/events.md.
func (t Type) String() string { return typeNames[t] }

// Field is one argument of a trace event: a range of bits in one word of the record.
type Field struct {
	Name   string
	Type   Type
	Word   uint8 // 0 is A
	Shift  uint8
	Bits   uint8
	Values []string // of Flags, from the lowest bit, and of Enum, from zero
}

// Info describes a kind of trace event: one row of the table.
type Info struct {
	Kind     Kind
	Name     string
	Group    string // part of the program that records it
	Sentence string // what it means, with its fields in braces
	Fields   []Field
}

// Info returns the row of the table for k; nil if there is none.
func (k Kind) Info() *Info {
	if k == 0 || k >= kinds {
		return nil
	}
	return &table[k-1]
}

// Field returns the field with this name; nil if there is none.
func (i *Info) Field(name string) *Field {
	if n := slices.IndexFunc(i.Fields, func(f Field) bool { return f.Name == name }); n >= 0 {
		return &i.Fields[n]
	}
	return nil
}

// Table returns all kinds, in the order of their numbers.
func Table() []Info { return table[:] }

func word(n uint8, name string, t Type) Field { return Field{Name: name, Type: t, Word: n, Bits: 64} }

func part(n uint8, name string, t Type, shift, bits uint8, values ...string) Field {
	return Field{name, t, n, shift, bits, values}
}

const (
	groupAll   = "recording"
	groupTask  = "tasks"
	groupSlot  = "slots"
	groupComm  = "messages"
	groupStore = "windows"
)

var groups = []string{groupAll, groupTask, groupSlot, groupComm, groupStore}

// Reasons are the names of the reasons for which a task gives up its slot.
var Reasons = []string{"wait", "block", "undeferred", "window", "outside"}

// Collective returns the collective in word B of a CollectiveBegun. One that is not listed, as of a
// later version of weft, has the name "collective".
func Collective(b uint64) names.Collective {
	if n := int(b >> 32 & 0xff); n < len(names.Collectives) {
		return names.Collectives[n]
	}
	return names.Collective{Name: "collective"}
}

func collectives() (all []string) {
	for _, c := range names.Collectives {
		all = append(all, c.Name)
	}
	return all
}

// Fields that several kinds have.
var (
	ofTask    = []Field{word(0, "task", Task)}
	ofMessage = []Field{word(0, "request", Request), part(1, "peer", Rank, 0, 32), part(1, "tag", Tag, 32, 32),
		part(2, "bytes", Bytes, 0, 40), part(2, "comm", Comm, 40, 24)}
	ofOperation = []Field{part(0, "peer", Rank, 0, 32), part(0, "epoch", Number, 32, 32), part(1, "window", Window, 0, 32),
		part(1, "operation", Number, 32, 32), word(2, "bytes", Bytes)}
	ofWindow = []Field{part(0, "window", Window, 0, 32)}
)

// table is the only list of the kinds of trace events. Decoder, printer, checker, timeline and
// docs/events.md are made from it.
var table = [kinds - 1]Info{
	{Lost, "lost", groupAll, "{count} trace events were lost here because the ring buffer was full", []Field{word(0, "count", Number)}},

	{Spawned, "spawned", groupTask, "task {task} is spawned by {parent} from {spec}, with priority {priority}: {flags}; it stands for 2^{sampled} tasks", []Field{
		word(0, "task", Task), word(1, "parent", Task), part(2, "spec", Spec, 0, 32), part(2, "priority", Signed, 32, 16),
		part(2, "flags", Flags, 48, 8, "ready", "undeferred", "wait", "final", "main", "loop", "onready"), part(2, "sampled", Number, 56, 8)}},
	{Access, "access", groupTask, "task {task} declares {mode} of {size} at {address}, {flags}", []Field{
		word(0, "task", Task), part(1, "address", Address, 0, 48), part(1, "mode", Enum, 48, 8, names.Modes[:]...),
		part(1, "flags", Flags, 56, 2, "weak", "range"), word(2, "size", Bytes)}},
	{Again, "again", groupTask, "task {task} is round {round} of recorded task {recorded}", []Field{
		word(0, "task", Task), word(1, "recorded", Task), word(2, "round", Number)}},
	{Ready, "ready", groupTask, "task {task} may start: task {by} has released the last access that blocked it", []Field{
		word(0, "task", Task), word(1, "by", Task)}},
	{Prepared, "prepared", groupTask, "OnReady of task {task} is called; the body waits for the events that OnReady binds", ofTask},
	{Started, "started", groupTask, "the body of task {task} begins, on top of task {outer}", []Field{
		word(0, "task", Task), word(1, "outer", Task)}},
	{Skipped, "skipped", groupTask, "task {task} is skipped, on top of task {outer}, because the run has failed; it ends at once", []Field{
		word(0, "task", Task), word(1, "outer", Task)}},
	{Ended, "ended", groupTask, "the body of task {task} returns, with {holds} events pending: {flags}", []Field{
		word(0, "task", Task), word(1, "holds", Number), part(2, "flags", Flags, 0, 8, "completed", "failed")}},
	{Released, "released", groupTask, "the last event of task {task} has ended; the accesses of the task are released", ofTask},
	{Completed, "completed", groupTask, "task {task} and all its descendants are complete", ofTask},
	{Blocked, "blocked", groupTask, "task {task} gives up its slot: {reason}", []Field{
		word(0, "task", Task), part(1, "reason", Enum, 0, 8, Reasons...)}},
	{Unblocked, "unblocked", groupTask, "task {task} is no longer blocked; it queues for a slot", ofTask},
	{Resumed, "resumed", groupTask, "task {task} has a slot again", ofTask},
	{HoldUp, "hold-up", groupTask, "an event is bound to task {task}", ofTask},
	{HoldDown, "hold-down", groupTask, "an event of task {task} ends: {flags}", []Field{
		word(0, "task", Task), part(2, "flags", Flags, 0, 8, "failed")}},
	{RunFailed, "run-failed", groupTask, "the run of main task {main} has failed or was cancelled: tasks are skipped from here on", []Field{
		word(0, "main", Task)}},

	{SlotTaken, "slot-taken", groupSlot, "a goroutine takes the slot", nil},
	{SlotReleased, "slot-given", groupSlot, "the goroutine hands the slot to the goroutine of task {task}, or to a spare goroutine", ofTask},
	{Stolen, "stolen", groupSlot, "the slot takes {count} tasks from slot {victim}, the first of them task {task}", []Field{
		word(0, "task", Task), word(1, "victim", Slot), word(2, "count", Number)}},
	{Parked, "parked", groupSlot, "the slot has found no work and parks", nil},
	{Unparked, "unparked", groupSlot, "the slot is woken", nil},

	{SendPosted, "send-posted", groupComm, "request {request}: send {bytes} to rank {peer} of communicator {comm} with tag {tag}", ofMessage},
	{RecvPosted, "recv-posted", groupComm, "request {request}: receive up to {bytes} from rank {peer} of communicator {comm} with tag {tag}", ofMessage},
	{Matched, "matched", groupComm, "request {request} has matched a message of {bytes} from rank {peer} of communicator {comm} with tag {tag}",
		ofMessage},
	{RequestDone, "request-done", groupComm, "request {request} is complete: {flags}", []Field{
		word(0, "request", Request), part(1, "flags", Flags, 0, 8, "completed", "failed")}},
	{CollectiveBegun, "collective-begun", groupComm, "request {request}: {collective} number {number} of the {size} ranks of communicator {comm}; root {root}, or position {root} in a scan", []Field{
		word(0, "request", Request), part(1, "root", Rank, 0, 32), part(1, "collective", Enum, 32, 8, collectives()...), part(1, "size", Number, 40, 24),
		part(2, "number", Number, 0, 40), part(2, "comm", Comm, 40, 24)}},
	{Bound, "bound", groupComm, "request {request} is {how} task {task}", []Field{
		word(0, "request", Request), word(1, "task", Task), part(2, "how", Enum, 0, 8, "bound to", "waited for by")}},

	{EpochClosing, "epoch-closing", groupStore, "request {request}: fence of window {window}, which is to close epoch {epoch}: {flags}", []Field{
		word(0, "request", Request), part(1, "window", Window, 0, 32), part(1, "flags", Flags, 32, 8, "opens", "last"), word(2, "epoch", Number)}},
	{EpochClosed, "epoch-closed", groupStore, "request {request}: epoch {epoch} of window {window} is closed at this rank", []Field{
		word(0, "request", Request), part(1, "window", Window, 0, 32), word(2, "epoch", Number)}},
	{Put, "put", groupStore, "operation {operation} of window {window}, in epoch {epoch}: put {bytes} in the region of rank {peer}", ofOperation},
	{Get, "get", groupStore, "operation {operation} of window {window}, in epoch {epoch}: get {bytes} from the region of rank {peer}", ofOperation},
	{Accumulate, "accumulate", groupStore, "operation {operation} of window {window}, in epoch {epoch}: accumulate {bytes} in the region of rank {peer}",
		ofOperation},
	{Durable, "durable", groupStore, "epoch {epoch} of window {window} survives the end of the program", []Field{
		part(0, "window", Window, 0, 32), word(1, "epoch", Number)}},

	{RunOfRank, "run-of-rank", groupAll, "the run of main task {main} belongs to rank {rank}", []Field{
		word(0, "main", Task), part(1, "rank", Rank, 0, 32)}},
	{Refused, "refused", groupTask, "task {task} is refused: its accesses are not legal", ofTask},
	{WindowMade, "window-made", groupStore, "window {window} has {regions} regions; that of this rank has {bytes}", []Field{
		part(0, "window", Window, 0, 32), word(1, "bytes", Bytes), part(2, "regions", Number, 0, 32)}},
	{WindowNamed, "window-named", groupStore, "window {window} is network-attached memory, {how} as {name}", []Field{
		part(0, "window", Window, 0, 32), part(2, "name", Name, 0, 32), part(2, "how", Enum, 32, 8, "allocated", "attached to")}},
	{WindowFreed, "window-freed", groupStore, "window {window} is freed at this rank", ofWindow},
	{WindowRemoved, "window-removed", groupStore, "the memory of window {window} is released; its name may be used again", ofWindow},
	{OperationDone, "operation-done", groupStore, "operation {operation} of window {window} has ended at this rank: {flags}; other processes see its effect when the epoch is closed", []Field{
		part(1, "window", Window, 0, 32), part(1, "operation", Number, 32, 32), part(2, "flags", Flags, 0, 8, "completed", "failed")}},
}

// String returns the kind's name in the table.
func (k Kind) String() string {
	if i := k.Info(); i != nil {
		return i.Name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Kind says what happened. Its numbers are part of the trace format: a number is never reused, and
// new kinds are added at the end.
type Kind uint8

// The kinds of trace events. The table has their fields and meanings.
const (
	Lost Kind = 1 + iota

	// Tasks.
	Spawned
	Access
	Again
	Ready
	Prepared
	Started
	Skipped
	Ended
	Released
	Completed
	Blocked
	Unblocked
	Resumed
	HoldUp
	HoldDown
	RunFailed

	// Slots.
	SlotTaken
	SlotReleased
	Stolen
	Parked
	Unparked

	// Messages and collectives.
	SendPosted
	RecvPosted
	Matched
	RequestDone
	CollectiveBegun
	Bound

	// Windows and network-attached memory.
	EpochClosing
	EpochClosed
	Put
	Get
	Accumulate
	Durable

	// More of the recording.
	RunOfRank

	// More of tasks.
	Refused

	// More of windows.
	WindowMade
	WindowNamed
	WindowFreed
	WindowRemoved
	OperationDone

	kinds // the number of kinds, plus one
)

// Set is a set of kinds.
type Set uint64

// All has every kind.
const All = Set(1)<<kinds - 2

// Of returns the set of these kinds.
func Of(kinds ...Kind) Set {
	var s Set
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Group returns the kinds of k's group, as the table has it.
func (k Kind) Group() Set {
	var s Set
	for i := range table {
		if table[i].Group == k.Info().Group {
			s |= Of(table[i].Kind)
		}
	}
	return s
}

// Has reports whether k is in s.
func (s Set) Has(k Kind) bool { return s>>k&1 != 0 }

// This line fails to compile if there are more kinds than a Set has bits.
const _ = uint(64 - kinds)

// Markdown returns docs/events.md: the table as a page.
func Markdown() string {
	var b strings.Builder
	b.WriteString(markdownHead)
	for _, group := range groups {
		fmt.Fprintf(&b, "\n## Trace events of %s\n\n| number | name | meaning | fields |\n|---|---|---|---|\n", group)
		for _, k := range table {
			if k.Group == group {
				fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", k.Kind, k.Name, k.Sentence, k.fields())
			}
		}
	}
	return b.String()
}

const markdownHead = `# Trace events

Use this page to read the output of ` + "`weft trace print`" + `, or to write a program that reads recordings.
[The trace format](trace-format.md) describes the file around the records.

Each row is one kind of trace event. The meaning is the sentence that ` + "`weft trace print`" + ` shows, with
the fields in braces. The last column gives the type and the position of each field: word A, B or C
of the record, and the bits of the word if the field does not fill the word. Numbers of trace events
and positions of fields do not change within a version of the trace format; new trace events may be
added.

In the tables, an *event* without "trace" is an [event](GLOSSARY.md#event) of a
[task](GLOSSARY.md#task): a completion that the program has bound to the task. A
[slot](GLOSSARY.md#slot) is the right to run one task, a [rank](GLOSSARY.md#rank) is a participant
in messages, a [window](GLOSSARY.md#window) is memory that other ranks may access, and an
[epoch](GLOSSARY.md#epoch) is the time between two fences of a window.

[The README of internal/event](../internal/event/README.md) says in which order trace events follow
one another. The table in that package is the source of this page:
` + "`go run ./cmd/weft trace events > docs/events.md`" + `.
`

// fields returns the column of the fields.
func (i *Info) fields() string {
	if len(i.Fields) == 0 {
		return "–"
	}
	var l []string
	for _, f := range i.Fields {
		s := fmt.Sprintf("`%s`: %s, %c", f.Name, f.Type, 'A'+f.Word)
		if f.Bits < 64 {
			s += fmt.Sprintf(" %d–%d", f.Shift, f.Shift+f.Bits-1)
		}
		if f.Values != nil {
			s += " (" + strings.Join(f.Values, ", ") + ")"
		}
		l = append(l, s)
	}
	return strings.Join(l, "; ")
}
