// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

// Help is the text of heat -h.
const Help = `heat computes how heat spreads over a plate: each time step is a Gauss-Seidel sweep over a matrix.
The matrix is split into ranks by rows, and into blocks, each of which is a task. Snapshots of the
matrix are put into network-attached memory. A second program, heat view, makes an animated GIF of
them.

Usage:
  heat [flags]         run; without flags: for a few seconds, with check, snapshots and heat.gif
  heat view [flags]    make a GIF of the snapshots of a run (see heat view -h)

The problem:
  -s, -size N          rows and columns of the matrix (512)
  -r, -rows N          rows, with -cols
  -c, -cols N          columns, with -rows
  -t, -timesteps N     time steps (12000)
  -f, -sources-file F  heat sources (heat.conf if it exists, else two built-in ones). Line 1 of the
                       file is their number; then a line for each: row col range temperature
  -d, -delta X         residual threshold, only shown by -v (5e-05); no variant stops early

Ranks and blocks (sizes are rounded up to whole blocks on every rank):
  -b, -bs N            rows and columns of a block (128, or less in a small matrix)
  -R, -rbs N           rows of a block
  -C, -cbs N           columns of a block
      -ranks N         number of ranks, all in this process (2). Under "weft run" it is the number
                       of started ranks
      -workers N       number of tasks that run at once in this process ($WEFT_WORKERS, or the
                       number of cores; under "weft run" each rank has its share of the cores)

Computation:
      -variant V       itampi    tasks; halos by Isend and Irecv, bound by Iwait (default)
                       tampirma  tasks; halos by puts between fences of several windows
                       mpi       each rank sequential; halos by blocking Send and Recv
  -w, -wins N          tampirma: windows per halo; must divide the number of column blocks
                       (the largest such number up to 4)
      -kernel K        rows8     eight rows in flight (default)
                       row       one row, the western value in a register
                       naive     one row, exactly as in the formula
  -W, -no-warmup       skip the warm-up: one step before the measurement, which does not count
      -check           compare the result with a sequential sweep, bit by bit; if they differ,
                       print the first differing cell and exit with 1

Snapshots:
      -nam-freq F      a snapshot every F steps (default: 12 to 24 in all; 0: none). The first
                       snapshot is the initial state
      -nam-sync S      process   complete snapshots survive the program, however it ends, and also
                                 a crash of the machine after the program ended normally (default)
                       epoch     each snapshot is forced to the disk, and survives a crash of the
                                 machine
      -nam-dir D       directory of the store ($WEFT_NAM_DIR, or weft/nam in the user's cache)
      -window NAME     name of the window, which must be free. Without this flag the run chooses a
                       new name, and removes the windows of earlier such runs from the store
      -gif FILE        after the run, make an animated GIF of the snapshots

Output:
  -o, -output FILE     write the final matrix as an image (PPM, text); no warm-up
  -v, -verbose         print the settings before the result
      -progress        show a progress bar, if stderr is a terminal
      -cpuprofile FILE write a CPU profile, for go tool pprof
      -stats           print a table of the tasks after the result, by label
      -taskprofile FILE
                       write a profile of the tasks, for go tool pprof (-sample_index=comm, …)
      -trace FILE      record all trace events: .json makes a timeline for ui.perfetto.dev, another
                       name a recording for weft trace
      -graph FILE      draw the graph of the tasks with the critical path: .svg, or .dot for Graphviz
      -http ADDRESS    serve a page that shows the tasks while they run, such as localhost:6060
  -h                   show this text

The result is one line of names and values, separated by commas. Exit status: 0 success, 1 failure
or a difference found by the check, 2 a bad flag, value or file.
`

// ViewHelp is the text of heat view -h.
const ViewHelp = `heat view attaches to the window of a heat run, reads all complete snapshots and writes an animated
GIF of at most 512 x 512 pixels. The run may still be running, have ended, or have been killed. If the
machine stopped during the run, only snapshots that are certainly on the disk are read.

Usage:
  heat view [flags]

      -nam-dir D       directory of the store ($WEFT_NAM_DIR, or weft/nam in the user's cache)
      -window NAME     name of the window (not needed if the store has only one)
      -gif FILE        output file (heat.gif)
      -progress        show a progress bar, if stderr is a terminal
  -h                   show this text
`
