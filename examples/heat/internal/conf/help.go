// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

// Help is the text of heat -h.
const Help = `heat computes how warmth spreads over a plate: a Gauss-Seidel sweep over a matrix, per
time step, cut into ranks by rows and into blocks that are tasks. Snapshots of the matrix go into
network-attached memory, from which a second program, heat view, makes an animated GIF.

Usage:
  heat [flags]         run; without flags: a few seconds, checked, with snapshots and heat.gif
  heat view [flags]    make a GIF of the snapshots of a run; heat view -h

The problem:
  -s, -size N          rows and columns of the matrix (512)
  -r, -rows N          rows, with -cols
  -c, -cols N          columns, with -rows
  -t, -timesteps N     time steps (12000)
  -f, -sources-file F  heat sources (heat.conf if it exists, else two built in). Line 1 of the
                       file: how many; then a line for each: row col range temperature
  -d, -delta X         residual threshold, shown by -v (5e-05); no variant stops early

How it is cut (sizes are rounded up to whole blocks on every rank):
  -b, -bs N            rows and columns of a block (128, or less in a small matrix)
  -R, -rbs N           rows of a block
  -C, -cbs N           columns of a block
      -ranks N         ranks, all in this process (2); as many as "weft run" has started
      -workers N       tasks that run at once in this process ($WEFT_WORKERS, or the number of
                       cores; of ranks that were started, each has its share)

How it is computed:
      -variant V       itampi    tasks; halos by Isend and Irecv, bound by Iwait (default)
                       tampirma  tasks; halos by puts between fences of several windows
                       mpi       each rank sequential; halos by blocking Send and Recv
  -w, -wins N          tampirma: windows per halo; must divide the number of column blocks
                       (the largest such number up to 4)
      -kernel K        rows8     eight rows in flight (default)
                       row       one row, the western value in a register
                       naive     one row, as the formula reads
  -W, -no-warmup       skip the warm-up, one step on the side before the clock starts
      -check           compare with a sequential sweep, bit by bit; if they differ, name the
                       first cell and exit with 1

Snapshots:
      -nam-freq F      every F steps (12 to 24 over the run; 0: none). The initial state is the
                       first snapshot
      -nam-sync S      process   complete ones survive the end of the program, however it ends,
                                 and, once it has ended well, that of the machine (default)
                       epoch     each is forced to the disk, and survives a crash of the machine
      -nam-dir D       directory of the store ($WEFT_NAM_DIR, or weft/nam in the user's cache)
      -window NAME     name of the window, which must be free. Without it the run takes a new name
                       of its own, and removes what earlier such runs left in the store
      -gif FILE        after the run, make an animated GIF of the snapshots

Output:
  -o, -output FILE     write the final matrix as an image (PPM, text); no warm-up
  -v, -verbose         more lines before the result
      -progress        a bar, if stderr is a terminal
      -cpuprofile FILE write a CPU profile, for go tool pprof
      -stats           after the result, a table of what the tasks have done, by label
      -taskprofile FILE
                       write a profile of the tasks, for go tool pprof (-sample_index=comm, …)
      -trace FILE      record all events: a timeline for ui.perfetto.dev (.json), or for weft trace (others)
      -graph FILE      draw the graph of the tasks, with the critical path (.svg, or .dot for Graphviz)
      -http ADDRESS    serve a page that shows the tasks while they run, such as localhost:6060
  -h                   this text

The result is one line: name and value, separated by commas. Exit status: 0 done, 1 failed or
the check found a difference, 2 bad flag, value or file.
`

// ViewHelp is the text of heat view -h.
const ViewHelp = `heat view attaches to the window of a heat run, which may be over, running or killed, reads all
complete snapshots and writes an animated GIF: heat palette, at most 512 x 512, the initial state
first. If the machine has stopped during the run, these are the ones that are certainly on the disk.

Usage:
  heat view [flags]

      -nam-dir D       directory of the store ($WEFT_NAM_DIR, or weft/nam in the user's cache)
      -window NAME     name of the window; may be left out if the store has only one
      -gif FILE        file to write (heat.gif)
      -progress        a bar, if stderr is a terminal
  -h                   this text
`
